package assets_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/millrace-go/millrace/files/assets"
)

// BenchmarkServe serves a style sheet of 10 KB, beside net/http's own server of files.
func BenchmarkServe(b *testing.B) {
	text := strings.Repeat("a{color:red}\n", 800)
	s := newSet(b, map[string]string{"site.css": text}, assets.Config{})
	plain := http.FileServerFS(fstest.MapFS{"site.css": {Data: []byte(text), ModTime: time.Unix(1, 0)}})
	for _, x := range []struct {
		name, url string
		h         http.Handler
	}{{"assets", urlOf(b, s, "site.css"), s.Handler(assets.HandlerConfig{})}, {"net-http", "/site.css", plain}} {
		b.Run(x.name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, x.url, nil)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				if x.h.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
