package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	name = "nightly-report"
	ttl  = 30 * time.Second
)

// virtual runs a test in virtual time, on a store in a file. It fails if a goroutine is left.
func virtual(t *testing.T, f func(t *testing.T, s *storage.Store)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db") + "?wake=off&sync=normal"
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, s)
	})
}

func acquire(t *testing.T, s *storage.Store) *lease.Lease {
	t.Helper()
	l, err := lease.Acquire(t.Context(), s, name, lease.Config{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t *testing.T, l *lease.Lease) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func wantCause(t *testing.T, l *lease.Lease, want error) {
	t.Helper()
	if got := context.Cause(l.Context()); !errors.Is(got, want) {
		t.Errorf("lease %d ended with %v, want %v", l.Fence(), got, want)
	}
}

// weather makes calls slow, fails them before or after their effect, and lets some hang until their contexts end.
// Some writes take effect long after their caller has given up; late counts those.
func weather(s *storage.Store, r *rand.Rand, late *sync.WaitGroup) *storage.Store {
	var mu sync.Mutex
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
	return storagetest.Intercept(storage.New(lateStore{s.Driver(), roll, late}), func(ctx context.Context, op storagetest.Op, do func() error) error {
		slow := func() { time.Sleep(time.Duration(roll(2000)) * time.Millisecond) }
		slow()
		switch roll(12) {
		case 0:
			return op.Fail(storage.ErrUnavailable)
		case 1:
			_ = do()
			slow()
			return op.Fail(storage.ErrUnavailable)
		case 2:
			<-ctx.Done()
			return context.Cause(ctx)
		}
		err := do()
		slow()
		return err
	})
}

type lateStore struct {
	driver.Store
	roll func(n int) int
	late *sync.WaitGroup
}

func (s lateStore) Blobs(name string) driver.Blobs {
	return lateBlobs{s.Store.Blobs(name), s.roll, s.late}
}

type lateBlobs struct {
	driver.Blobs
	roll func(n int) int
	late *sync.WaitGroup
}

func (b lateBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	if b.roll(12) > 0 {
		return b.Blobs.Put(ctx, key, body, cond)
	}
	later := time.Duration(b.roll(int(ttl)))
	b.late.Go(func() {
		time.Sleep(later)
		_, _ = b.Blobs.Put(context.WithoutCancel(ctx), key, body, cond)
	})
	return "", storage.ErrUnavailable
}

// A watch sees all leases of a name. It fails the test when two are alive at once, or fences don't rise.
type watch struct {
	mu     sync.Mutex
	leases []*lease.Lease
}

func (w *watch) see(t *testing.T, l *lease.Lease) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, old := range w.leases {
		if old.Context().Err() == nil && l.Context().Err() == nil {
			t.Errorf("leases %d and %d are both alive", old.Fence(), l.Fence())
		}
		if old.Fence() >= l.Fence() {
			t.Errorf("lease %d comes after %d", l.Fence(), old.Fence())
		}
	}
	w.leases = append(w.leases, l)
}
