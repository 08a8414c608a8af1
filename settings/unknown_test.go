package settings_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// A slowStore lets one write of the current document come late: its caller gets an error, and it reaches the store just
// before the next write.
type slowStore struct {
	driver.Store

	mu    sync.Mutex
	armed bool
	late  func()
}

func (s *slowStore) Blobs(container string) driver.Blobs {
	return slowBlobs{s.Store.Blobs(container), s}
}

type slowBlobs struct {
	driver.Blobs
	store *slowStore
}

func (b slowBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	if strings.HasSuffix(key, "/current") {
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		if b.store.armed {
			b.store.armed = false
			b.store.late = func() { _, _ = b.Blobs.Put(context.WithoutCancel(ctx), key, body, cond) }
			return "", fmt.Errorf("%w: made up by a test", storage.ErrUnavailable)
		}
		if late := b.store.late; late != nil {
			b.store.late = nil
			late()
		}
	}
	return b.Blobs.Put(ctx, key, body, cond)
}

func (s *slowStore) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = true
}

// Law: every change is made once, and Back goes back once. A write whose answer is lost may reach the store after the
// next one was tried.
func TestAWriteThatComesLateIsNotRepeated(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		slow := &slowStore{Store: s.Driver()}
		behind := storage.New(slow)
		a := node(t, behind, settings.Config{Name: "a"})
		for range 2 {
			propose(t, a, 60)
			propose(t, a, 70)
		}
		slow.arm()
		_, err := a.Propose(t.Context(), ada, func(s *shop) { seats(s.Seats + 10)(s) })
		must(t, err)
		wantSeats(t, 80, a)
		slow.arm()
		e, err := ledger(t, behind).Back(t.Context(), -1, ada)
		must(t, err)
		if c := current(t, s); e.Version != c.Version || !strings.Contains(string(c.Values), `"seats":70`) {
			t.Errorf("got version %d, and %s in force as version %d; want 70 seats", e.Version, c.Values, c.Version)
		}
	})
}
