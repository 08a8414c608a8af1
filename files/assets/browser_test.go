package assets_test

import (
	"errors"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/internal/browsertest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

var azurite = sync.OnceValues(azuretest.Launch)

// A browser shows a page whose files come from a container, and shows the page as well when the container is gone: the
// page names the program then.
func TestBrowserWithAnotherOrigin(t *testing.T) {
	t.Parallel()
	store, err := azure.Open(t.Context(), azuretest.Place(t, azurite, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	texts := map[string]string{
		"css/site.css": "body { color: rgb(1, 2, 3); background: url(../mark.svg) } /* " + strings.Repeat("x", 2000) + " */",
		"site.js":      "document.documentElement.dataset.script = 'ran'",
		"mark.svg":     `<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>`,
	}
	base, err := newSet(t, texts, assets.Config{}).Push(t.Context(), store, "web")
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}

	// A network in front of the container lets pages of all sites use the files.
	var gone atomic.Bool
	var asked atomic.Int64
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at); r.Out.Header.Del("Origin") }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			http.NotFound(w, r)
			return
		}
		asked.Add(1)
		w.Header().Set("Access-Control-Allow-Origin", "*")
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)

	set := newSet(t, texts, assets.Config{Path: "/static/", Base: front.URL + "/"})
	set.LookOften()
	page := template.Must(template.New("").Funcs(set.Funcs()).Parse(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Files</title>` +
		`<link rel="icon" href="data:,">{{stylesheet "css/site.css"}}{{script "site.js"}}</head><body><main><h1>Files</h1><img src="{{asset "mark.svg"}}" alt="mark"></main></body></html>`))
	mux := http.NewServeMux()
	mux.Handle("GET /static/", set.Handler(assets.HandlerConfig{}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		s := set.Sources()
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src "+s+"; style-src "+s+"; img-src data: "+s)
		if err := page.Execute(w, nil); err != nil {
			t.Error(err)
		}
	})
	program := httptest.NewServer(mux)
	t.Cleanup(program.Close)

	b := browsertest.New(t)
	shows := func(from string) {
		t.Helper()
		assets.Until(t, func() bool {
			u, err := set.URL("css/site.css")
			return err == nil && strings.HasPrefix(u, from)
		})
		b.Do(browsertest.Open(program.URL + "/"))
		b.Check("a page with files from " + from)
		if got := browsertest.Eval[string](b, `getComputedStyle(document.body).color + " " + document.documentElement.dataset.script + " " + document.images[0].naturalWidth + " " + document.querySelector("link[rel=stylesheet]").href`); !strings.HasPrefix(got, "rgb(1, 2, 3) ran 7 ") || !strings.Contains(got, from) {
			t.Errorf("the browser shows %q, want the files from %s", got, from)
		}
	}
	shows(front.URL)
	if asked.Load() < 6 {
		t.Errorf("%d requests for the files, want three of the program's looks and three of the browser", asked.Load())
	}
	gone.Store(true)
	shows("/static/")
	gone.Store(false)
	shows(front.URL)
}

// A store whose engine serves no files says so.
func TestPushWithoutAnEngineThatServes(t *testing.T) {
	t.Parallel()
	s := newSet(t, map[string]string{"a.js": "x"}, assets.Config{})
	if _, err := s.Push(t.Context(), openStore(t), "web"); !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), "browsers") {
		t.Errorf("got %v, want that the engine can't", err)
	}
	if _, err := s.Push(t.Context(), nil, "web"); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("without a store: got %v", err)
	}
	if _, err := s.Push(t.Context(), openStore(t), "assets"); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "programs publish") {
		t.Errorf("where programs publish: got %v", err)
	}
}
