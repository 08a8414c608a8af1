package assets_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

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
