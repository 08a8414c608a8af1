package assets_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Law A6: a program needs no right at another origin. The program asks there as anybody can, and writes into one
// container of its own store.
func TestLawTheProgramWritesNothingElsewhere(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"a.js": "x", "b.css": "y{}"}
	elsewhere := newSet(t, texts, assets.Config{Path: "/web/"}).Handler(assets.HandlerConfig{})
	var asked atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodHead || r.URL.RawQuery != "" || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			t.Errorf("the other origin got %s %s, %v; want a HEAD that says nothing of who asks", r.Method, r.URL, r.Header)
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		elsewhere.ServeHTTP(w, r)
	}))
	t.Cleanup(origin.Close)
	var writes sync.Map
	store := storagetest.Intercept(openStore(t), func(_ context.Context, op storagetest.Op, do func() error) error {
		if !strings.HasPrefix(op.Name, "get ") && !strings.HasPrefix(op.Name, "list ") {
			writes.Store(op.Name+": "+op.Resource, true)
		}
		return do()
	})
	s := newSet(t, texts, assets.Config{Base: origin.URL + "/web/", Logger: slog.New(slog.DiscardHandler)})
	s.LookOften()
	if err := s.Publish(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	assets.Until(t, func() bool { return strings.HasPrefix(urlOf(t, s, "a.js"), origin.URL) })
	h := s.Handler(assets.HandlerConfig{Store: store})
	for _, name := range append(s.Names(), "a.js", "c.0123456789abcdef.js") {
		get(t, h, "/assets/"+name)
	}
	var got []string
	writes.Range(func(key, _ any) bool { got = append(got, key.(string)); return true })
	slices.Sort(got)
	if want := []string{"put blob: blob assets/" + s.Name("a.js"), "put blob: blob assets/" + s.Name("b.css")}; asked.Load() < 2 || !slices.Equal(got, want) {
		t.Errorf("%d requests elsewhere; the store got %q, want %q", asked.Load(), got, want)
	}
}

// A program that starts while the store is away publishes its files once the store is back, and says so once.
func TestRunPublishesOnceTheStoreIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		store := storagetest.Intercept(openStore(t), func(_ context.Context, op storagetest.Op, do func() error) error {
			if away.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		var log bytes.Buffer
		s := newSet(t, map[string]string{"a.js": "x"}, assets.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, store) }()
		time.Sleep(5 * time.Minute)
		away.Store(false)
		time.Sleep(2 * time.Minute)
		if _, err := store.Blobs("assets").Get(t.Context(), s.Name("a.js"), ""); err != nil {
			t.Errorf("the file isn't published: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("got %v, want a good end", err)
		}
		if n := strings.Count(log.String(), "aren't published yet"); n != 1 {
			t.Errorf("the log says %d times that files aren't published, want once", n)
		}
	})
	s := newSet(t, map[string]string{"a.js": "x"}, assets.Config{})
	if err := s.Run(t.Context(), nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("without a store: got %v", err)
	}
}
