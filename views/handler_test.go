package views_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/views"
)

// page serves a view of totals: the sum alone.
func page(totals *views.View[Total]) http.Handler {
	mux := http.NewServeMux()
	key := func(r *http.Request) string { return r.PathValue("account") }
	mux.Handle("/totals/{account}", totals.Handler(key, func(account string, v Total) any {
		return map[string]any{"account": account, "sum": v.Sum}
	}))
	return mux
}

// ask asks for a path; headers are name and value in turn.
func ask(h http.Handler, method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Result()
}

func text(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHandlerGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustFold("totals", added("1", "ada", 5))
	r := ask(page(w.Totals), "GET", "/totals/ada")
	if got, want := text(t, r), `{"account":"ada","sum":5}`+"\n"; r.StatusCode != 200 || got != want {
		t.Errorf("got %d %q, want 200 %q", r.StatusCode, got, want)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-cache", "Content-Length": "26"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if etag := r.Header.Get("ETag"); len(etag) < 10 || etag[0] != '"' || etag[len(etag)-1] != '"' {
		t.Errorf("got ETag %s, want a strong one", etag)
	}
	r = ask(page(w.Totals), "GET", "/totals/bob")
	if got, want := text(t, r), `{"account":"bob","sum":0}`+"\n"; r.StatusCode != 200 || got != want {
		t.Errorf("before the first event: got %d %q, want 200 %q", r.StatusCode, got, want)
	}
}

// A handler without a render shows the view as it is.
func TestHandlerWithoutRender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustFold("totals", added("1", "ada", 5))
	r := ask(w.Totals.Handler(func(*http.Request) string { return "ada" }, nil), "GET", "/")
	var got Total
	if err := json.NewDecoder(r.Body).Decode(&got); r.StatusCode != 200 || err != nil || got.Sum != 5 {
		t.Errorf("got %d %+v, error %v; want the view with the sum 5", r.StatusCode, got, err)
	}
}

func TestHandlerHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustFold("totals", added("1", "ada", 5))
	get, head := ask(page(w.Totals), "GET", "/totals/ada"), ask(page(w.Totals), "HEAD", "/totals/ada")
	if got := text(t, head); head.StatusCode != 200 || got != "" {
		t.Errorf("got %d %q, want 200 and no body", head.StatusCode, got)
	}
	for name := range get.Header {
		if got, want := head.Header.Get(name), get.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q as for GET", name, got, want)
		}
	}
}

func TestHandlerNotModified(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustFold("totals", added("1", "ada", 5))
	h := page(w.Totals)
	etag := ask(h, "GET", "/totals/ada").Header.Get("ETag")
	for name, test := range map[string]struct {
		ifNoneMatch string
		want        int
	}{
		"the same":         {etag, 304},
		"weak":             {"W/" + etag, 304},
		"in a list":        {`"a", W/"b" ,` + etag + `,"c"`, 304},
		"weak in a list":   {`"a",W/` + etag, 304},
		"any":              {"*", 304},
		"another":          {`"a"`, 200},
		"a list of others": {`"a", "b"`, 200},
		"unquoted":         {strings.Trim(etag, `"`), 200},
		"half":             {etag[:5], 200},
		"nonsense":         {"nonsense", 200},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			r := ask(h, method, "/totals/ada", "If-None-Match", test.ifNoneMatch)
			body := text(t, r)
			if r.StatusCode != test.want {
				t.Errorf("%s: %s: got %d, want %d", name, method, r.StatusCode, test.want)
			}
			if r.StatusCode == 304 && (body != "" || r.Header.Get("Content-Length") != "" || r.Header.Get("Content-Type") != "") {
				t.Errorf("%s: %s: a 304 with body %q and headers %v", name, method, body, r.Header)
			}
			if r.Header.Get("ETag") != etag || r.Header.Get("Cache-Control") != "no-cache" {
				t.Errorf("%s: %s: got headers %v", name, method, r.Header)
			}
		}
	}
}

func TestHandlerOtherMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		r := ask(page(w.Totals), method, "/totals/ada")
		if r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got %d, Allow %q; want 405, GET, HEAD", method, r.StatusCode, r.Header.Get("Allow"))
		}
	}
	w.calls.want(t, 0, 0)
}

func TestHandlerBadKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	none := w.Totals.Handler(func(*http.Request) string { return "" }, func(string, Total) any { return nil })
	if r := ask(none, "GET", "/"); r.StatusCode != 404 {
		t.Errorf("no key: got %d, want 404", r.StatusCode)
	}
	for _, path := range []string{"/totals/a%00b", "/totals/%ff", "/totals/" + strings.Repeat("a", 257), "/totals/%0a"} {
		if r := ask(page(w.Totals), "GET", path); r.StatusCode != 404 {
			t.Errorf("%.20s: got %d, want 404", path, r.StatusCode)
		}
	}
	w.calls.want(t, 0, 0)
}

func TestHandlerWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := page(w.Totals)
		etag := ask(h, "GET", "/totals/ada").Header.Get("ETag")
		w.calls.failWith(fmt.Errorf("secret detail: %w", storage.ErrUnavailable))
		if r := ask(h, "GET", "/totals/ada"); r.StatusCode != 200 {
			t.Errorf("while it is fresh: got %d, want 200", r.StatusCode)
		}
		time.Sleep(time.Second)
		r := ask(h, "GET", "/totals/ada", "If-None-Match", etag)
		if body := text(t, r); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" || r.Header.Get("ETag") != "" || strings.Contains(body, "secret") {
			t.Errorf("got %d %q, headers %v; want 503 with Retry-After and no detail", r.StatusCode, body, r.Header)
		}
		w.calls.failWith(nil)
		if r := ask(h, "GET", "/totals/ada", "If-None-Match", etag); r.StatusCode != 304 {
			t.Errorf("afterwards: got %d, want 304", r.StatusCode)
		}
	})
}

func TestHandlerWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.Totals.Handler(func(*http.Request) string { return "a" }, func(string, Total) any { return make(chan int) })
	if r := ask(h, "GET", "/"); r.StatusCode != 500 || r.Header.Get("ETag") != "" {
		t.Errorf("got %d, headers %v; want 500 without an ETag", r.StatusCode, r.Header)
	}
}

func TestHandlerCacheControl(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, views.Config[Month]{}, views.Config[Total]{CacheControl: "public, max-age=5"})
	if got, want := ask(page(w.Totals), "GET", "/totals/ada").Header.Get("Cache-Control"), "public, max-age=5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The ETag changes exactly when the served content does. All web processes agree on it.
func TestHandlerETag(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, views.Config[Month]{}, views.Config[Total]{Fresh: -1})
	first, second := page(w.Totals), page(views.New(w.Channels, "totals", views.Config[Total]{Fresh: -1}))
	seen := map[string]string{}
	for i, amount := range []int{5, 0, 7, -7, -5} {
		w.mustFold("totals", added(fmt.Sprint(i), "ada", amount))
		a, b := ask(first, "GET", "/totals/ada"), ask(second, "GET", "/totals/ada")
		etag, body := a.Header.Get("ETag"), text(t, a)
		if got := b.Header.Get("ETag"); got != etag {
			t.Errorf("two processes serve %s and %s for %s", etag, got, body)
		}
		for old, content := range seen {
			if (old == etag) != (content == body) {
				t.Errorf("ETags %s and %s for %q and %q", old, etag, content, body)
			}
		}
		seen[etag] = body
	}
	if len(seen) != 3 {
		t.Errorf("got %d different answers, want 3: %v", len(seen), seen)
	}
	// Another document with the same numbers has another content.
	if a, b := ask(first, "GET", "/totals/bob").Header.Get("ETag"), ask(first, "GET", "/totals/eve").Header.Get("ETag"); a == b {
		t.Errorf("two documents have the ETag %s", a)
	}
}

// A page view in the common case makes no request and encodes nothing.
func TestHandlerFromMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		encoded := 0
		h := w.Totals.Handler(func(*http.Request) string { return "ada" }, func(string, Total) any { encoded++; return 1 })
		for range 3 {
			for range 10 {
				if r := ask(h, "GET", "/"); r.StatusCode != 200 {
					t.Fatalf("got %d", r.StatusCode)
				}
			}
			time.Sleep(time.Second)
		}
		w.calls.want(t, 3, 0)
		if encoded != 1 {
			t.Errorf("encoded %d times, want 1", encoded)
		}
	})
}

func TestHandlerOfAClosedBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := httptest.NewRecorder()
	page(w.Totals).ServeHTTP(rec, httptest.NewRequest("GET", "/totals/ada", nil).WithContext(ctx))
	if rec.Code != 200 && rec.Code != 503 {
		t.Errorf("got %d", rec.Code)
	}
}

func BenchmarkHandler(b *testing.B) {
	w := newWorldWith(b, views.Config[Month]{}, views.Config[Total]{Fresh: time.Hour})
	h := page(w.Totals)
	r := httptest.NewRequest("GET", "/totals/ada", nil)
	r.Header.Set("If-None-Match", ask(h, "GET", "/totals/ada").Header.Get("ETag"))
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}

func BenchmarkGet(b *testing.B) {
	w := newWorldWith(b, views.Config[Month]{}, views.Config[Total]{Fresh: time.Hour})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Totals.Get(b.Context(), "ada"); err != nil {
			b.Fatal(err)
		}
	}
}
