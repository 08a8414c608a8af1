package host_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/millracetest"
)

// post sends a command with some headers.
func post(t *testing.T, address string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(`{"days":3}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return do(t, r)
}

// A page of another origin sends nothing. A page of the web's own does, also behind a proxy. Where the proxy changes
// the Host header, and the browser says no more than the Origin, -origins names it.
func TestAPageOfAnotherOriginSendsNothing(t *testing.T) {
	t.Parallel()
	alone := start(t, renting(), "-addr=127.0.0.1:0")
	trusting := start(t, renting(), "-addr=127.0.0.1:0", "-origins=https://Shop.example:443/, http://front.example")
	behind := func(address string, keepsHost bool) string {
		target, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if keepsHost {
				r.Out.Host = r.In.Host
			}
		}})
		t.Cleanup(front.Close)
		return front.URL
	}
	kept, changed, named := behind(alone.url(t), true), behind(alone.url(t), false), behind(trusting.url(t), false)
	for _, x := range []struct {
		to      string
		headers []string
		want    int
	}{
		{alone.url(t), nil, http.StatusAccepted}, // no browser
		{alone.url(t), []string{"Sec-Fetch-Site", "same-origin"}, http.StatusAccepted},
		{alone.url(t), []string{"Origin", alone.url(t)}, http.StatusAccepted},
		{alone.url(t), []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, http.StatusForbidden},
		{alone.url(t), []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{alone.url(t), []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		{alone.url(t), []string{"Origin", "null"}, http.StatusForbidden},
		{alone.url(t), []string{"Origin", "https://evil.example", "X-Forwarded-Host", "evil.example"}, http.StatusForbidden},
		{alone.url(t), []string{"Origin", "https://shop.example"}, http.StatusForbidden},
		{trusting.url(t), []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://shop.example"}, http.StatusAccepted},
		{trusting.url(t), []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://shop.example.evil.example"}, http.StatusForbidden},
		{kept, []string{"Origin", kept}, http.StatusAccepted},
		{changed, []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://front.example"}, http.StatusAccepted},
		{changed, []string{"Origin", "http://front.example"}, http.StatusForbidden},
		{named, []string{"Origin", "http://front.example"}, http.StatusAccepted},
	} {
		if got, body := post(t, x.to, x.headers...); got != x.want {
			t.Errorf("%q: got %d %s, want %d", x.headers, got, body, x.want)
		}
	}
	if got := strings.Count(alone.String(), "a request from a page of another origin was refused"); got == 0 || got > 3 || !strings.Contains(alone.String(), "-origins") {
		t.Errorf("got %d lines of refused pages, want one a second that names -origins:\n%s", got, alone)
	}
}

// A start with an origin that no page can have is refused, because nobody would be trusted.
func TestOriginsAreChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"shop.example", "https://shop.example/orders", "https://", "*", "https://a.example;https://b.example/x"} {
		out := newOutput()
		code := host.Run(t.Context(), host.Process{Args: []string{"-addr=127.0.0.1:0", "-origins=" + bad}, Stdout: out, Stderr: out}, renting())
		if code != host.ExitUsage || !strings.Contains(out.String(), "-origins: ") || !strings.Contains(out.String(), "https://shop.example, with commas") {
			t.Errorf("%s: got exit code %d and %s, want %d and what is wanted", bad, code, out, host.ExitUsage)
		}
	}
}

// Nothing is sent by what any page may let a browser send without being asked: a form, text, a link, a picture.
func TestOnlyJSONAndOnlyByAMethodThatSends(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, stays(), func(t *testing.T, app *millracetest.App) {
		h := hotel(app.Channels())
		ask := func(method, path, media, body string) (int, string) {
			w, r := httptest.NewRecorder(), asked(t.Context(), method, path, body)
			r.Header.Set("Content-Type", media)
			if media == "" {
				r.Header.Del("Content-Type")
			}
			h.ServeHTTP(w, r)
			app.Drain()
			return w.Code, w.Body.String()
		}
		for _, media := range []string{"", "text/plain", "text/plain; charset=application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", "text/x+json", "json"} {
			for path, body := range map[string]string{"PUT /stays/7": `{"flat":"a","days":2}`, "POST /stays/7/leave": `{"tip":5}`, "POST /rents": `{"flat":"8","days":2}`} {
				method, path, _ := strings.Cut(path, " ")
				to := h
				if path == "/rents" {
					to = accepting(t, app.Store())
				}
				w, r := httptest.NewRecorder(), asked(t.Context(), method, path, body)
				r.Header.Set("Content-Type", media)
				to.ServeHTTP(w, r)
				if w.Code != http.StatusUnsupportedMediaType || !strings.Contains(w.Body.String(), "Content-Type: application/json") {
					t.Errorf("%s %s as %q: got %d %s, want 415 and what is wanted", method, path, media, w.Code, w.Body)
				}
			}
		}
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace} {
			for _, path := range []string{"/any/start/7", "/any/leave/7", "/any/cancel/7"} {
				if code, body := ask(method, path, "", ""); code != http.StatusMethodNotAllowed {
					t.Errorf("%s %s: got %d %s, want 405", method, path, code, body)
				}
			}
		}
		if code, _ := ask(http.MethodGet, "/stays/7", "", ""); code != http.StatusNotFound {
			t.Errorf("after all that there is an instance: got %d, want 404", code)
		}
		for media, body := range map[string]string{"application/json; charset=utf-8": `{"flat":"a","days":2}`, "application/stay+json": `{"flat":"a","days":2}`} {
			if code, text := ask(http.MethodPut, "/stays/7", media, body); code != http.StatusAccepted {
				t.Errorf("%q: got %d %s, want 202", media, code, text)
			}
		}
		if code, text := ask(http.MethodPost, "/stays/7/leave", "", ""); code != http.StatusAccepted {
			t.Errorf("without a body: got %d %s, want 202", code, text)
		}
	})
}

// The port for operators on this machine answers to an address or to localhost, so that no page can read it under a
// name of its own. On other addresses any name may lead to it.
func TestTheAdminPortAnswersToNoForeignName(t *testing.T) {
	t.Parallel()
	local := start(t, renting(), "-addr=127.0.0.1:0", "-admin=127.0.0.1:0")
	open := start(t, renting(), "-addr=127.0.0.1:0", "-admin=:0")
	for _, x := range []struct {
		at   *run
		host string
		want int
	}{
		{local, "", http.StatusOK},
		{local, "localhost:9090", http.StatusOK},
		{local, "LOCALHOST", http.StatusOK},
		{local, "[::1]:9090", http.StatusOK},
		{local, "192.0.2.7", http.StatusOK},
		{local, "evil.example", http.StatusMisdirectedRequest},
		{local, "evil.example:9090", http.StatusMisdirectedRequest},
		{local, "localhost.evil.example", http.StatusMisdirectedRequest},
		{local, "127.0.0.1.evil.example", http.StatusMisdirectedRequest},
		{open, "worker.shop.svc", http.StatusOK},
	} {
		line := x.at.line(t, "Operators have http://")
		_, line, _ = strings.Cut(line, "Operators have ")
		address, _, _ := strings.Cut(line, ". ")
		for _, path := range []string{"/healthz", "/metrics"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = x.host
			if got, body := do(t, r); got != x.want {
				t.Errorf("%s of %q: got %d %.80s, want %d", path, x.host, got, body, x.want)
			}
		}
	}
}
