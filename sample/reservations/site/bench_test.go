package site_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// A sink is a ResponseWriter without a network.
type sink struct {
	header http.Header
	status int
}

func (w *sink) Header() http.Header         { return w.header }
func (w *sink) WriteHeader(status int)      { w.status = status }
func (w *sink) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkPages serves the most frequent pages, without a network.
func BenchmarkPages(b *testing.B) {
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	routes, err := reservations.Routes()
	if err != nil {
		b.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/web")
	if err != nil {
		b.Fatal(err)
	}
	h, err := site.New(channels, site.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	answer := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	style := regexp.MustCompile(`/static/site\.[0-9a-f]+\.css`).FindString(answer("/").Body.String())
	for _, page := range []struct{ name, path string }{{"calendar", "/"}, {"month", "/views/months/" + time.Now().Format("2006-01")}, {"stylesheet", style}} {
		etag := answer(page.path).Header().Get("ETag")
		run := func(name, ifNoneMatch string, want int) {
			b.Run(name, func(b *testing.B) {
				r := httptest.NewRequestWithContext(b.Context(), "GET", page.path, nil)
				if ifNoneMatch != "" {
					r.Header.Set("If-None-Match", ifNoneMatch)
				}
				b.ReportAllocs()
				for b.Loop() {
					w := sink{header: http.Header{}, status: http.StatusOK}
					if h.ServeHTTP(&w, r); w.status != want {
						b.Fatalf("got %d, want %d", w.status, want)
					}
				}
			})
		}
		run(page.name, "", http.StatusOK)
		if etag != "" {
			run(page.name+", 304", etag, http.StatusNotModified)
		}
	}
}
