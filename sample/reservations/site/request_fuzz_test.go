package site_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const (
	knownID = "reservation-a" // of a reservation that exists and is not decided
	marker  = "<zz"           // a tag that only a client's text can have
)

// newTarget returns the site on a store of its own, without a network.
func newTarget(t testing.TB) http.Handler {
	t.Helper()
	store, err := sqlite.Open(context.WithoutCancel(t.Context()), filepath.Join(t.TempDir(), "test.db")+"?sync=normal&wake=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	routes, err := reservations.Routes()
	if err != nil {
		t.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/web")
	if err != nil {
		t.Fatal(err)
	}
	h, err := site.New(channels, site.Config{Logger: slog.New(slog.DiscardHandler), StreamFor: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"id":%q,"date":%q,"name":"Ada %s","email":"ada@example.org","quantity":2}`, knownID, time.Now().AddDate(0, 1, 0).Format(time.DateOnly), marker)
	r := httptest.NewRequest("POST", "/reservations", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusAccepted {
		t.Fatalf("got %d, want 202: %s", w.Code, w.Body)
	}
	return h
}

// answers are all statuses that the site may send while its store works.
var answers = []int{200, 202, 206, 301, 303, 304, 307, 400, 403, 404, 405, 409, 412, 413, 415, 416, 422}

// checkAnswer lets the site answer bytes from the wire, if they are HTTP.
func checkAnswer(t *testing.T, h http.Handler, wire []byte) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
	if err != nil {
		return
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(t.Context()))
	if !slices.Contains(answers, w.Code) {
		t.Errorf("%q: got %d: %s", wire, w.Code, w.Body)
	}
	for name, values := range w.Header() {
		for _, v := range values {
			if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c == 0x7f }) {
				t.Errorf("%q: header %s is %q", wire, name, v)
			}
		}
	}
	if to := w.Header().Get("Location"); to != "" && (to[0] != '/' || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`)) {
		t.Errorf("%q: leads away, to %q", wire, to)
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("%q: got the headers %v", wire, w.Header())
	}
	body := w.Body.String()
	switch kind := w.Header().Get("Content-Type"); {
	case strings.Contains(kind, "json") && body != "" && !json.Valid([]byte(body)):
		t.Errorf("%q: no JSON: %s", wire, body)
	case strings.Contains(kind, "html") && strings.Contains(body, marker):
		t.Errorf("%q: a client's text is a tag: %s", wire, body)
	}
}

func wire(method, path, body string, header ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: tables.example.org\r\n", method, path)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	return []byte(b.String() + "\r\n" + body)
}

// hostilePaths are addresses that attackers try.
var hostilePaths = []string{
	"/", "//", "//evil.example/..", `/\evil.example`, "/?month=" + marker, "/?month=9999-12", "/reservations", "/reservations/new?date=" + marker, "/reservations/new?date=2026-13-45;x=%zz",
	"/reservations/" + knownID, "/reservations/" + knownID + "/events", "/reservations/" + knownID + "/cancel", "/reservations/%2e%2e%2f%2e%2e%2fetc", "/reservations/..%00/cancel",
	"/reservations/%0d%0aSet-Cookie:x/cancel", "/reservations/a%2fb", "/reservations//cancel", "/views/months/2026-12", "/views/months/%00", "/views/months/../../x", "/static/", "/static/..%2fbook.go", "/static/style.css",
}

const jsonType = "application/json"

func hostileBodies() [][]byte {
	const form = "application/x-www-form-urlencoded"
	return [][]byte{
		wire("POST", "/reservations", `{"id":"x`+marker+`","date":"2026-12-24\u0000","name":"`+marker+`","email":"a@b\r\nBcc: c@d","quantity":1e99}`, "Content-Type", jsonType),
		wire("POST", "/reservations", "id="+marker+"&date=%ff%00&name="+marker+"&email=%0d%0a&quantity=99999999999999999999", "Content-Type", form),
		wire("POST", "/reservations", "id="+knownID+"&date=2026-12-24&name=Bob&email=bob@example.org&quantity=1", "Content-Type", form),
		wire("POST", "/reservations", strings.Repeat("[", 60_000), "Content-Type", jsonType),
		wire("POST", "/reservations", strings.Repeat("a=b&", 20_000), "Content-Type", form),
		wire("POST", "/reservations", "<x/>", "Content-Type", "application/xml"), wire("POST", "/reservations", "x", "Content-Type", `text/plain; a="`),
		wire("POST", "/reservations", "{}", "Content-Type", jsonType, "Traceparent", "00-\x1b", "Accept", "a/b;q=\"", "Accept-Encoding", "zz"),
		[]byte("POST /reservations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n{\"id\""),
		[]byte("POST /reservations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n{"),
		[]byte("GET http://evil.example/reservations/new HTTP/1.0\r\n\r\n"), []byte("CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"), []byte("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"),
	}
}

// No request gets a 500, leads away from the site, adds a header, or turns a client's text into a tag.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	h := newTarget(t)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "ZZ"} {
		for _, path := range hostilePaths {
			checkAnswer(t, h, wire(method, path, "", "Accept", "text/html"))
			checkAnswer(t, h, wire(method, path, "", "Accept", jsonType, "If-None-Match", `W/"`, "Range", "bytes=-1,9-"))
		}
	}
}

// FuzzRequest is TestHostileRequests for any bytes from the wire.
func FuzzRequest(f *testing.F) {
	for _, path := range hostilePaths {
		f.Add(wire("GET", path, "", "Accept", "text/html"))
	}
	for _, r := range hostileBodies() {
		f.Add(r)
	}
	h := newTarget(f)
	f.Fuzz(func(t *testing.T, request []byte) { checkAnswer(t, h, request) })
}
