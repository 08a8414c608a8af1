package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/host"
)

// serve runs the sample's web until the test ends, and returns its address.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- host.Run(ctx, host.Process{Args: append([]string{"web", "-addr=127.0.0.1:0", "-worker=false", "-store=sqlite:" + dir + "/r.db"}, args...), Stdout: out}, Program())
		_ = out.Close()
	}()
	lines := bufio.NewReader(in)
	first, err := lines.ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != host.ExitOK {
			t.Errorf("got exit code %d, want 0", code)
		}
	})
	_, address, ok := strings.Cut(strings.TrimSpace(first), "Serving at ")
	if !ok {
		t.Fatalf("got %q (%v), want the address", first, err)
	}
	return address
}

// The pages of the site book and cancel, also behind a proxy, whether it keeps the Host header or not. Those of other
// sites don't.
func TestOnlyTheSitesOwnFormsWork(t *testing.T) {
	t.Parallel()
	const outside = "https://tables.example"
	address := serve(t, "-origins="+outside)
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	t.Cleanup(proxy.Close)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for i, x := range []struct {
		at      string
		says    []string
		refused bool
	}{
		{address, []string{"Origin", address}, false},
		{address, []string{"Origin", address, "Sec-Fetch-Site", "same-origin"}, false},
		{proxy.URL, []string{"Origin", "https://elsewhere.example", "Sec-Fetch-Site", "same-origin"}, false},
		{proxy.URL, []string{"Origin", outside}, false},
		{proxy.URL, []string{"Origin", "null"}, true},
		{address, []string{"Origin", "https://evil.example"}, true},
		{address, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, true},
		{address, []string{"Sec-Fetch-Site", "same-site"}, true},
	} {
		id := fmt.Sprintf("of-the-test-%d", i)
		booking := url.Values{"id": {id}, "date": {time.Now().AddDate(0, 0, 7).Format(time.DateOnly)}, "name": {"Ada"}, "email": {"ada@example.org"}, "quantity": {"2"}}
		for path, form := range map[string]url.Values{"/reservations": booking, "/reservations/cancelled-by-the-test/cancel": {}} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, x.at+path, strings.NewReader(form.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for i := 0; i < len(x.says); i += 2 {
				r.Header.Set(x.says[i], x.says[i+1])
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if refused := res.StatusCode == http.StatusForbidden; refused != x.refused || !refused && form.Has("id") && res.StatusCode != http.StatusSeeOther {
				t.Errorf("%s at %s, %q: got %d %s, want that it is refused: %v", path, x.at, x.says, res.StatusCode, text, x.refused)
			}
		}
	}
}
