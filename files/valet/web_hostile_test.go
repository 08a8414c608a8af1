package valet_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// over makes the town's web one that sees the store through a hook.
func (w *town) over(cfg valet.Config, change func(*storage.Store) *storage.Store) {
	w.t.Helper()
	known, err := routes()
	w.must(err)
	c, err := channel.New(change(w.app.Store()), known, "/web")
	w.must(err)
	cfg.Rules = rules()
	w.v, err = valet.New(c, cfg)
	w.must(err)
}

// Keys are for HTTPS alone: a request has to come over TLS, from this machine, or from a proxy that says so.
func TestPlainHTTPIsRefused(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{Proxies: []string{"10.0.0.0/8", "192.0.2.7", "fd00::/8"}}, func(w *town) {
		url := w.read(w.accepted(), valet.Download{Owner: "cook"}).URL
		for _, test := range []struct {
			from, said string
			tls, good  bool
		}{
			{"127.0.0.1:1", "", false, true}, {"[::1]:1", "", false, true}, {"[::ffff:127.0.0.1]:1", "", false, true}, {"127.8.9.1:1", "https", false, true},
			{"127.0.0.1:1", "http", false, false}, {"[::1]:1", "http", false, false}, {"127.0.0.1:1", "HTTPS", false, false},
			{"203.0.113.5:1", "", false, false}, {"203.0.113.5:1", "https", false, false}, {"203.0.113.5:1", "", true, true}, {"203.0.113.5:1", "http", true, true},
			{"10.1.2.3:1", "https", false, true}, {"10.1.2.3:1", "", false, false}, {"10.1.2.3:1", "http", false, false}, {"10.1.2.3:1", "https, http", false, false}, {"[::ffff:10.1.2.3]:1", "https", false, true},
			{"192.0.2.7:1", "https", false, true}, {"192.0.2.8:1", "https", false, false}, {"[fd00::1]:1", "https", false, true}, {"[fe80::1]:1", "https", false, false},
			{"", "https", false, false}, {"@", "https", false, false}, {"localhost:1", "", false, false}, {"10.1.2.3", "https", false, false},
		} {
			code := http.StatusForbidden
			if test.good {
				code = http.StatusOK
			}
			got := w.wantOf(code, request{http.MethodGet, url, nil, func(r *http.Request) {
				if r.RemoteAddr = test.from; test.said != "" {
					r.Header.Set("X-Forwarded-Proto", test.said)
				}
				if test.tls {
					r.TLS = &tls.ConnectionState{}
				}
			}})
			if (got == string(png)) != test.good {
				w.t.Errorf("%+v: got %q", test, got)
			}
		}
	})
}

// A download is a file as browsers know it: with its head alone, in ranges, and not again if it is known.
func TestDownloadsInPieces(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		id := w.accepted()
		url := w.read(id, valet.Download{Owner: "cook"}).URL
		for _, test := range []struct {
			method, field, value string
			code                 int
			body                 string
		}{
			{http.MethodGet, "", "", http.StatusOK, string(png)},
			{http.MethodHead, "", "", http.StatusOK, ""},
			{http.MethodGet, "Range", "bytes=1-3", http.StatusPartialContent, "PNG"},
			{http.MethodGet, "Range", "bytes=-3", http.StatusPartialContent, string(png[len(png)-3:])},
			{http.MethodGet, "Range", "bytes=30-99", http.StatusPartialContent, string(png[30:])},
			{http.MethodGet, "Range", "bytes=33-", http.StatusRequestedRangeNotSatisfiable, ""},
			{http.MethodGet, "Range", "bytes=3-1", http.StatusRequestedRangeNotSatisfiable, ""},
			{http.MethodGet, "Range", "bytes=a-b", http.StatusRequestedRangeNotSatisfiable, ""},
			{http.MethodGet, "Range", "bytes=0-99999999999999999999", http.StatusRequestedRangeNotSatisfiable, ""},
			{http.MethodGet, "Range", "points=1-3", http.StatusRequestedRangeNotSatisfiable, ""},
			{http.MethodHead, "Range", "bytes=1-3", http.StatusPartialContent, ""},
			{http.MethodGet, "If-None-Match", `"` + sumOf(png) + `"`, http.StatusNotModified, ""},
			{http.MethodGet, "If-None-Match", `"` + sumOf(pdf) + `"`, http.StatusOK, string(png)},
			{http.MethodGet, "If-Match", `"` + sumOf(pdf) + `"`, http.StatusPreconditionFailed, ""},
		} {
			r := w.do(request{test.method, url, nil, func(r *http.Request) {
				if test.field != "" {
					r.Header.Set(test.field, test.value)
				}
			}})
			body, err := io.ReadAll(r.Body)
			w.must(err)
			if r.StatusCode != test.code || test.code < 400 && string(body) != test.body {
				w.t.Errorf("%s %s: %s: got %d, %q", test.method, test.field, test.value, r.StatusCode, body)
			}
			if h := r.Header; h.Get("Cache-Control") == "" && test.code < 400 || h.Get("X-Content-Type-Options") != "nosniff" {
				w.t.Errorf("%s %s: %s: got %v", test.method, test.field, test.value, h)
			}
		}
		if r := w.do(request{http.MethodGet, url, nil, func(r *http.Request) { r.Header.Set("Range", "bytes=0-0,2-2,4-4") }}); r.StatusCode != http.StatusPartialContent {
			w.t.Errorf("several ranges: got %d", r.StatusCode)
		}
	})
}

// elsewhere is a store that has URLs for its files.
type elsewhere struct{ driver.Store }

func (s elsewhere) Files() driver.Files { return elsewhereFiles{s.Store.Files()} }

type elsewhereFiles struct{ driver.Files }

func (elsewhereFiles) Key(_ context.Context, container, key string, k driver.FileKey) (string, error) {
	return fmt.Sprintf("https://store.example/%s/%s?part=%d&for=%v", container, key, k.Part, k.For), nil
}

// Where the store has URLs, each of them is a use of the key. A HEAD is none, so it gets no URL.
func TestEachURLOfTheStoreIsAUse(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		id := w.accepted()
		w.over(valet.Config{}, func(s *storage.Store) *storage.Store { return storage.New(elsewhere{s.Driver()}) })
		read := w.read(id, valet.Download{Owner: "cook", Uses: 2})
		where := func(method string) string { return w.ask(method, read.URL, nil).Header.Get("Location") }
		for range 3 {
			if r := w.ask(http.MethodHead, read.URL, nil); r.StatusCode != http.StatusOK || len(r.Header.Values("Location")) > 0 || r.ContentLength != int64(len(png)) {
				w.t.Errorf("HEAD: got %d, %v", r.StatusCode, r.Header)
			}
		}
		for range 2 {
			if got, want := where(http.MethodGet), "https://store.example/file-store/"+id+"?part=0&for=2m0s"; got != want {
				w.t.Errorf("got %s, want %s", got, want)
			}
		}
		if got := where(http.MethodGet); got != "" {
			w.t.Errorf("a third use: got %s", got)
		}
		if got := fmt.Sprint(w.log(read.ID)); got != "[issue refuse: this key was used as often as it may be use use]" {
			w.t.Errorf("the log has %v", got)
		}
		key := w.upload(valet.Upload{Rule: "any", Type: "application/octet-stream", Size: 3, TTL: time.Hour})
		for _, want := range []string{"15m0s", "10m1s"} { // the second one ends with the key
			if put := w.part(key, 1).URL; !strings.HasSuffix(put, "part=1&for="+want) {
				w.t.Errorf("got %s, want one for %s", put, want)
			}
			w.app.Wait(50 * time.Minute)
		}
	})
}

// No key leaves without its row in the log, and no byte flows. A key of the store whose row is there goes on, and all
// works again with the log.
func TestWithoutTheLogNothingIsDone(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		id := w.accepted()
		broken := false
		w.over(valet.Config{}, func(s *storage.Store) *storage.Store {
			return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				row := strings.HasPrefix(op.Name, "put row") && !strings.HasPrefix(op.Resource, "row file-uses/")
				if grant := op.Name == "commit" && strings.HasPrefix(op.Resource, "blob file-grants/"); broken && (row || grant) { // a grant is one with its row
					return op.Fail(storage.ErrUnavailable)
				}
				return do()
			})
		})
		key, read := w.picture(), w.read(id, valet.Download{Owner: "cook"})
		folder, err := w.v.Folder(w.t.Context(), valet.Folder{Path: "menu", Rule: "any", Owner: "cook"})
		w.must(err)
		put := w.part(key, 1)
		w.app.Wait(2 * time.Minute) // a row of the part's key is there, and counts for a minute
		broken = true
		for _, q := range []request{
			{http.MethodPost, key.URL + "/parts?n=1", nil, nil}, {http.MethodPut, key.URL + "/1", nil, nil}, {http.MethodDelete, key.URL, nil, nil},
			{http.MethodGet, read.URL, nil, nil}, {http.MethodPost, read.URL, nil, nil}, {http.MethodPost, read.URL, nil, nil},
			{http.MethodGet, folder.URL, nil, nil}, {http.MethodPost, folder.URL, []byte(`{"name":"a","type":"text/plain","size":1}`), nil},
		} {
			if r := w.do(q); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Location") != "" || r.Header.Get("Retry-After") == "" {
				w.t.Errorf("%s %.20s: got %d, %v", q.method, q.url, r.StatusCode, r.Header)
			}
		}
		w.want(http.StatusCreated, http.MethodPut, put.URL, png)
		w.want(http.StatusServiceUnavailable, http.MethodPost, key.URL+"/complete", nil)
		for what, err := range map[string]error{
			"upload":   second(w.v.Upload(w.t.Context(), valet.Upload{Rule: "any", Owner: "ada", Name: "a", Type: "text/plain", Size: 1})),
			"download": second(w.v.Download(w.t.Context(), id, valet.Download{Owner: "cook"})),
			"revoke":   w.v.Revoke(w.t.Context(), id, "x"), "delete": w.v.Delete(w.t.Context(), id, "x"), "release": w.v.Release(w.t.Context(), id, "x"),
		} {
			if err == nil {
				w.t.Errorf("%s: no error", what)
			}
		}
		w.app.Advance(10 * time.Second)
		w.wantState(key.ID, valet.StateGranted)
		w.wantState(id, valet.StateClean)
		broken = false
		w.want(http.StatusMethodNotAllowed, http.MethodPost, read.URL, nil) // noted now
		w.want(http.StatusOK, http.MethodGet, read.URL, nil)
		w.want(http.StatusAccepted, http.MethodPost, key.URL+"/complete", nil)
		w.app.Drain()
		w.wantState(key.ID, valet.StateClean)
		if got := fmt.Sprint(w.log(read.ID)); got != "[issue refuse: this key doesn't allow that use]" {
			w.t.Errorf("the log has %v", got)
		}
	})
}

func second[T any](_ T, err error) error { return err }
