package site_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations/site"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	month := func(n int) string { return time.Now().AddDate(0, n, -time.Now().Day()+1).Format("2006-01") }
	for path, status := range map[string]int{
		"/": 200, "/?month=" + month(0): 200, "/?month=" + month(12): 200,
		"/?month=" + month(-1): 404, "/?month=" + month(13): 404, "/?month=9999-12": 404, "/?month=2026-13": 404, "/?month=x": 404,
		"/reservations/new": 200, "/reservations/new?date=" + in(1): 200, "/reservations/new?date=x": 200, "/reservations/new?date=" + in(-1): 200,
		"/views/months/2026-12": 200, "/views/months/2026-13": 404, "/views/months/": 404, "/views/months/..%2f..": 404,
		"/reservations/" + channel.NewID(): 404, "/reservations/a": 404, "/reservations/..%2f..%2fetc": 404, "/reservations/" + channel.NewID() + "/events": 404,
		"/nothing": 404, "/reservations/" + channel.NewID() + "/cancelled": 404,
	} {
		a := s.get(path, "Accept", "text/html").want(t, status)
		if !strings.HasPrefix(path, "/views/") {
			a.want(t, status, "Content-Type", "text/html; charset=utf-8").has(t, "The Millrace")
		}
		if status >= 400 {
			a := s.get(path, "Accept", "application/json").want(t, status, "Content-Type", "application/problem+json")
			if got := decode[problem](t, a).Status; got != status {
				t.Errorf("%s: problem's status: got %d, want %d", path, got, status)
			}
		}
	}
	s.do("PUT", "/reservations", nil).want(t, http.StatusMethodNotAllowed, "Allow", "GET, HEAD, POST")
	s.do("DELETE", "/reservations/"+channel.NewID(), nil).want(t, http.StatusMethodNotAllowed, "Allow", "GET, HEAD")
	id := channel.NewID()
	s.postJSON(body(id, in(3), 2)).want(t, http.StatusAccepted)
	s.do("HEAD", "/reservations/"+id+"/events", nil).want(t, http.StatusOK, "Content-Type", "text/event-stream")
	s.get("/reservations/new?date="+in(-1)).has(t, "That day is over.", `id="date-fault"`)
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	for _, path := range []string{"/", "/nothing", "/reservations/" + channel.NewID(), "/views/months/2026-12"} {
		a := s.get(path)
		a.want(t, a.StatusCode, "X-Content-Type-Options", "nosniff", "Referrer-Policy", "same-origin", "X-Frame-Options", "DENY", "Strict-Transport-Security", "")
		csp := a.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: policy without %q: %s", path, part, csp)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy: %s", path, csp)
		}
	}
	if page := s.get("/").body; regexp.MustCompile(`(?i)\sstyle=|<style|\son[a-z]+=|<script>`).MatchString(page) {
		t.Errorf("the page has what its policy forbids:\n%s", page)
	}

	h, err := site.New(s.channels, site.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "https://restaurant.example/", nil)
	r.TLS = &tls.ConnectionState{}
	h.ServeHTTP(w, r)
	if w.Header().Get("Strict-Transport-Security") == "" {
		t.Error("no Strict-Transport-Security over TLS")
	}
}

func TestStatic(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	refs := regexp.MustCompile(`(?:href|src)="(/static/[^"]+)"`).FindAllStringSubmatch(s.get("/").body, -1)
	if len(refs) < 2 {
		t.Fatalf("the page refers to %d static files", len(refs))
	}
	for _, ref := range refs {
		a := s.get(ref[1], "Accept-Encoding", "identity").want(t, http.StatusOK, "Cache-Control", "public, max-age=31536000, immutable")
		if etag := a.Header.Get("ETag"); etag == "" {
			t.Errorf("%s: no ETag", ref[1])
		} else {
			s.get(ref[1], "Accept-Encoding", "identity", "If-None-Match", etag).want(t, http.StatusNotModified, "Content-Length", "", "Cache-Control", "public, max-age=31536000, immutable")
			s.get(ref[1], "Accept-Encoding", "identity", "If-None-Match", `"a", W/`+etag).want(t, http.StatusNotModified)
			s.get(ref[1], "Accept-Encoding", "identity", "If-None-Match", `"a"`).want(t, http.StatusOK)
		}
		if len(a.body) < 100 || fmt.Sprint(len(a.body)) != a.Header.Get("Content-Length") {
			t.Errorf("%s: got %d bytes, header %v", ref[1], len(a.body), a.Header)
		}
		head := s.do("HEAD", ref[1], nil, "Accept-Encoding", "identity").want(t, http.StatusOK, "Content-Length", fmt.Sprint(len(a.body)), "ETag", a.Header.Get("ETag"))
		part := s.get(ref[1], "Accept-Encoding", "identity", "Range", "bytes=1-9").want(t, http.StatusPartialContent, "Content-Length", "9")
		if head.body != "" || part.body != a.body[1:10] {
			t.Errorf("%s: got %q for HEAD and %q for a part", ref[1], head.body, part.body)
		}
		s.do("POST", ref[1], nil).want(t, http.StatusMethodNotAllowed, "Allow", "GET, HEAD", "Content-Type", "text/html; charset=utf-8")
		s.get(ref[1]+"x", "If-None-Match", "*").want(t, http.StatusNotFound, "ETag", "", "Cache-Control", "no-store").has(t, "The Millrace")
	}
}

// The month's view is the same from the store and from memory.
func TestMonthView(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	month := time.Now().Format("2006-01")
	path := "/views/months/" + month
	first := s.get(path).want(t, http.StatusOK, "Content-Type", "application/json", "Cache-Control", "no-cache", "X-Content-Type-Options", "nosniff")
	if want := `{"month":"` + month + `","disabledDays":[]}` + "\n"; first.body != want {
		t.Errorf("got %q, want %q", first.body, want)
	}
	again := s.get(path).want(t, http.StatusOK)
	first.Header.Del("Date")
	again.Header.Del("Date")
	if first.body != again.body || fmt.Sprint(first.Header) != fmt.Sprint(again.Header) {
		t.Errorf("got %v %q from the store and %v %q from memory", first.Header, first.body, again.Header, again.body)
	}
	etag := first.Header.Get("ETag")
	s.get(path, "If-None-Match", etag).want(t, http.StatusNotModified, "ETag", etag, "Cache-Control", "no-cache", "Content-Type", "")
	s.get(path, "Range", "bytes=0-0").want(t, http.StatusPartialContent)
	if head := s.do("HEAD", path, nil).want(t, http.StatusOK, "Content-Length", fmt.Sprint(len(first.body))); head.body != "" {
		t.Errorf("HEAD: got %q", head.body)
	}
	s.do("PUT", path, nil).want(t, http.StatusMethodNotAllowed, "Allow", "GET, HEAD")
	s.get("/views/months/2026-13", "Accept", "application/json").want(t, http.StatusNotFound).has(t, "A month looks like")
}
