package valet_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/files/valet"
)

// One key can't fill the log: refusals of a kind, and renewals, are a row a minute.
func TestOneKeyDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		key := w.picture()
		for range 50 {
			w.want(http.StatusOK, http.MethodPost, key.URL+"/parts?n=1", nil)
		}
		folder, err := w.v.Folder(w.t.Context(), valet.Folder{Path: "menu", Rule: "picture", Owner: "cook"})
		w.must(err)
		for i := range 50 {
			w.want(http.StatusBadRequest, http.MethodPost, folder.URL, fmt.Appendf(nil, `{"name":"a","type":"text/x-%d","size":1}`, i))
		}
		if got := w.log(key.ID); fmt.Sprint(got) != "[issue renew]" {
			w.t.Errorf("of the upload: got %v", got)
		}
		if got := w.log(folder.ID); len(got) != 2 {
			w.t.Errorf("of the folder: got %d rows", len(got))
		}
		w.app.Wait(2 * time.Minute)
		w.part(key, 1)
		if got := w.log(key.ID); fmt.Sprint(got) != "[issue renew renew]" {
			w.t.Errorf("later: got %v", got)
		}
	})
}

// Law V6: a good key that came over plain HTTP has a row, since somebody may have read the key. A row says the client's
// address, which a proxy tells.
func TestLawV6RowsSayWhoAsked(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{Proxies: []string{"10.0.0.0/8"}}, func(w *town) {
		key := w.picture()
		w.wantOf(http.StatusForbidden, request{http.MethodGet, key.URL, nil, func(r *http.Request) { r.RemoteAddr = "192.0.2.7:99" }})
		w.wantOf(http.StatusOK, request{http.MethodPost, key.URL + "/parts?n=1", nil, func(r *http.Request) {
			r.RemoteAddr = "10.1.2.3:99"
			r.Header.Set("X-Forwarded-Proto", "https")
			r.Header.Set("X-Forwarded-For", "203.0.113.9, 198.51.100.4") // the first one is what the client says itself
		}})
		var from []string
		for e, err := range valet.Log(w.app.Store()).List(w.t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)) {
			w.must(err)
			from = append(from, strings.TrimPrefix(e.Act, "files ")+" "+e.From)
		}
		slices.Sort(from)
		if want := []string{"issue ", "refuse 192.0.2.7:99", "renew 198.51.100.4"}; !slices.Equal(from, want) {
			w.t.Errorf("got %q, want %q", from, want)
		}
	})
}

// A Config that can't be meant is refused, with what to do.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		rule := func(name string, r valet.Rules) valet.Config {
			return valet.Config{Rules: map[string]valet.Rules{name: r}}
		}
		good := valet.Rules{MaxSize: 1}
		for want, cfg := range map[string]valet.Config{
			"want one such as image/png":  rule("a", valet.Rules{MaxSize: 1, Types: []string{"png"}}),
			"small letters, digits":       rule("a\nb", good),
			"1 to 40":                     rule(strings.Repeat("a", 41), good),
			"MaxSize is 0":                rule("a", valet.Rules{}),
			"https://example.org/files/":  {URL: "http://example.org/files/"},
			"want a path such as /files/": {URL: "mailto://example.org/"},
			"an address, or a range":      {Proxies: []string{"proxy"}},
		} {
			if _, err := valet.New(w.app.Channels(), cfg); err == nil || !strings.Contains(err.Error(), want) {
				w.t.Errorf("got %v, want an error with %q", err, want)
			}
		}
		for _, url := range []string{"/f/", "https://example.org/f/", "http://localhost:8080/f/", "http://[::1]/f/"} {
			if _, err := valet.New(w.app.Channels(), valet.Config{URL: url}); err != nil {
				w.t.Errorf("%s: %v", url, err)
			}
		}
	})
}
