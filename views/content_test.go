package views_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/views"
)

// Content answers as http.ServeContent does, byte for byte, whatever the request.
func TestContentIsServeContent(t *testing.T) {
	t.Parallel()
	body := []byte(strings.Repeat("0123456789", 1000)) // more than any buffer on the way
	header := http.Header{"Content-Type": {"text/plain"}, "Cache-Control": {"no-cache"}, "Etag": {`"abc"`}}
	content := views.NewContent(body, header)
	behind := func(h http.Handler) string { // sets headers before the handler, as a middleware does
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if e := r.Header.Get("X-Encoding"); e != "" {
				w.Header().Set("Content-Encoding", e)
			}
			w.Header().Set("X-Before", "kept")
			h.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	got, want := behind(content), behind(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), header)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}))
	ask := func(method, url string, headers http.Header) (status int, h http.Header, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = headers
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s %v: %v", method, headers, err)
		}
		defer func() { _ = resp.Body.Close() }()
		resp.Header.Del("Date")
		return resp.StatusCode, resp.Header, text(t, resp)
	}
	const late, early = "Fri, 01 Jan 2100 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:01 GMT"
	statuses := map[int]int{}
	for _, asked := range []http.Header{
		{}, {"Accept-Encoding": {"identity"}}, {"X-Encoding": {"br"}}, {"X-Encoding": {"br"}, "If-None-Match": {`"abc"`}},
		{"If-None-Match": {`"abc"`}}, {"If-None-Match": {`W/"abc"`}}, {"If-None-Match": {`"a", W/"b" ,"abc"`}}, {"If-None-Match": {`"a",W/"abc"`}},
		{"If-None-Match": {"*"}}, {"If-None-Match": {""}}, {"If-None-Match": {"abc"}}, {"If-None-Match": {`"ab`}}, {"If-None-Match": {`"abcd"`}}, {"If-None-Match": {`"a", "b"`}},
		{"If-None-Match": {`"a"`, `"abc"`}}, {"If-None-Match": {`"abc"`, `"a"`}}, {"If-None-Match": {"", `"abc"`}},
		{"If-Match": {`"abc"`}}, {"If-Match": {`"a"`}}, {"If-Match": {`W/"abc"`}}, {"If-Match": {"*"}}, {"If-Match": {""}}, {"If-Match": {`"a"`}, "If-None-Match": {`"abc"`}},
		{"If-Match": {`"abc"`}, "If-None-Match": {`"abc"`}},
		{"If-Modified-Since": {late}}, {"If-Modified-Since": {early}}, {"If-Unmodified-Since": {early}}, {"If-Unmodified-Since": {late}}, {"If-Modified-Since": {late}, "If-None-Match": {`"a"`}},
		{"Range": {"bytes=0-99"}}, {"Range": {"bytes=9990-"}}, {"Range": {"bytes=-1"}}, {"Range": {"bytes=0-"}}, {"Range": {"bytes=20000-"}}, {"Range": {"bytes=x"}}, {"Range": {"lines=1-2"}}, {"Range": {""}},
		{"Range": {"bytes=0-1"}, "If-Range": {`"abc"`}}, {"Range": {"bytes=0-1"}, "If-Range": {`"a"`}}, {"Range": {"bytes=0-1"}, "If-Range": {`W/"abc"`}}, {"If-Range": {`"a"`}},
		{"Range": {"bytes=0-1"}, "If-None-Match": {`"abc"`}}, {"Range": {"bytes=0-1"}, "If-None-Match": {`"a"`}}, {"Range": {"bytes=0-1"}, "If-Match": {`"a"`}},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			status, h, b := ask(method, got, asked.Clone())
			wantStatus, wantH, wantB := ask(method, want, asked.Clone())
			if status != wantStatus || fmt.Sprint(h) != fmt.Sprint(wantH) || b != wantB {
				t.Errorf("%s %v: got %d %v, %d bytes\nwant %d %v, %d bytes", method, asked, status, h, len(b), wantStatus, wantH, len(wantB))
			}
			statuses[status]++
		}
	}
	for _, status := range []int{200, 206, 304, 412, 416} { // the table must cover all of them
		if statuses[status] == 0 {
			t.Errorf("nothing was answered with %d", status)
		}
	}
	status, h, b := ask("GET", got, http.Header{"Range": {"bytes=0-1,5-6"}}) // its boundary is random
	if status != 206 || !strings.HasPrefix(h.Get("Content-Type"), "multipart/byteranges") || !strings.Contains(b, "56") {
		t.Errorf("two ranges: got %d %v %q", status, h, b)
	}
}

func TestContentOtherMethods(t *testing.T) {
	t.Parallel()
	c := views.NewContent([]byte("secret"), http.Header{"Etag": {`"abc"`}})
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		r := ask(c, method, "/", "If-None-Match", `"abc"`)
		if body := text(t, r); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" || r.Header.Get("ETag") != "" || strings.Contains(body, "secret") {
			t.Errorf("%s: got %d %v %q, want 405", method, r.StatusCode, r.Header, body)
		}
	}
}

// Content without an ETag matches nothing.
func TestContentWithoutETag(t *testing.T) {
	t.Parallel()
	c := views.NewContent(nil, http.Header{"Content-Type": {"text/plain"}})
	for _, ifNoneMatch := range []string{"", `""`, `"a"`} {
		if r := ask(c, "GET", "/", "If-None-Match", ifNoneMatch); r.StatusCode != 200 || r.Header.Get("Content-Length") != "0" {
			t.Errorf("%q: got %d %v, want 200 and nothing", ifNoneMatch, r.StatusCode, r.Header)
		}
	}
}

// A middleware's changes to the headers of one answer don't show in another answer.
func TestContentSharesNoChange(t *testing.T) {
	t.Parallel()
	roomy := append(make([]string, 0, 8), "Accept")
	c := views.NewContent([]byte("a"), http.Header{"Etag": {`"abc"`}, "Cache-Control": {"no-cache"}, "Vary": roomy})
	first := httptest.NewRecorder()
	c.ServeHTTP(first, httptest.NewRequest("GET", "/", nil))
	for name := range first.Header() {
		first.Header().Add(name, "another")
	}
	first.Header().Set("ETag", `"x"`)
	if roomy = roomy[:2]; roomy[1] != "" {
		t.Errorf("an answer added %q to what all share", roomy[1])
	}
	second := ask(c, "GET", "/")
	for name, want := range map[string]string{"ETag": `["abc"]`, "Cache-Control": "[no-cache]", "Content-Length": "[1]", "Accept-Ranges": "[bytes]", "Vary": "[Accept]"} {
		if got := fmt.Sprint(second.Header.Values(name)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// A document is served from memory for as long as it is fresh, without a request to the store.
func TestServeCached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.Totals.Server(func(_ string, s Total) any { return s.Sum })
		r := httptest.NewRequest("GET", "/", nil)
		cached := func(want string) {
			t.Helper()
			rec := httptest.NewRecorder()
			if got := s.ServeCached(rec, r, "ada"); got != (want != "") || rec.Body.String() != want || !got && len(rec.Header()) > 0 {
				t.Errorf("got %v, %v %q, want %q", got, rec.Header(), rec.Body, want)
			}
		}
		serve := func() error { return s.Serve(t.Context(), httptest.NewRecorder(), r, "ada") }

		cached("")
		w.calls.want(t, 0, 0)
		if err := serve(); err != nil {
			t.Fatal(err)
		}
		cached("0\n")
		w.mustFold("totals", added("1", "ada", 5))
		cached("0\n")
		// A reader that has seen the new version never sees the old one.
		if _, _, err := w.Totals.GetFresh(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		cached("5\n")

		time.Sleep(time.Second)
		cached("")
		w.calls.failWith(storage.ErrUnavailable)
		rec := httptest.NewRecorder()
		if err := s.Serve(t.Context(), rec, r, "ada"); err == nil || len(rec.Header()) > 0 || rec.Body.Len() > 0 {
			t.Errorf("got %v, %v %q, want an error and no answer", err, rec.Header(), rec.Body)
		}
		w.calls.failWith(nil)
		if err := serve(); err != nil {
			t.Fatal(err)
		}
		cached("5\n")
	})
}

func BenchmarkContent(b *testing.B) {
	c := views.NewContent(make([]byte, 10_000), http.Header{"Content-Type": {"text/css"}, "Cache-Control": {"no-cache"}, "Etag": {`"abc"`}})
	for name, header := range map[string]http.Header{"200": {}, "304": {"If-None-Match": {`"abc"`}}, "range": {"Range": {"bytes=0-9"}}} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), "GET", "/", nil)
			r.Header = header
			rec := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				clear(rec.Header())
				rec.Body.Reset()
				c.ServeHTTP(rec, r)
			}
		})
	}
}
