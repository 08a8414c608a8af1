package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	name = "nightly-report"
	ttl  = 30 * time.Second
)

// virtual runs a test in virtual time, on n stores in files. It fails if a goroutine is left.
func virtual(t *testing.T, n int, f func(t *testing.T, stores []*storage.Store)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		stores := make([]*storage.Store, n)
		for i := range stores {
			stores[i] = agreetest.Open(t, filepath.Join(dir, fmt.Sprint(i)))
		}
		f(t, stores)
		time.Sleep(4 * ttl) // calls that hang or stand still end
	})
}

// A process sees the stores through links of its own, which a test cuts.
type process struct {
	links  []*storagetest.Link
	stores []*storage.Store
}

func newProcess(stores []*storage.Store) *process {
	p := &process{}
	for _, s := range stores {
		l := storagetest.NewLink(s)
		p.links, p.stores = append(p.links, l), append(p.stores, l.Store)
	}
	return p
}

func (p *process) cut(stores ...int) {
	for _, i := range stores {
		p.links[i].Cut()
	}
}

func (p *process) restore(stores ...int) {
	for _, i := range stores {
		p.links[i].Restore()
	}
}

func acquire(t *testing.T, stores []*storage.Store) *quorum.Lock {
	t.Helper()
	l, err := quorum.Acquire(t.Context(), stores, name, quorum.Config{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func try(stores []*storage.Store) (*quorum.Lock, error) {
	return quorum.Try(context.Background(), stores, name, quorum.Config{TTL: ttl})
}

func release(t *testing.T, l *quorum.Lock) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// drop releases a lock that a test shouldn't have got, so that the test ends, and returns its fence.
func drop(l *quorum.Lock) int64 {
	if l == nil {
		return 0
	}
	_ = l.Release(context.Background())
	return l.Fence()
}

func wantCause(t *testing.T, l *quorum.Lock, want error) {
	t.Helper()
	if got := context.Cause(l.Context()); !errors.Is(got, want) {
		t.Errorf("lock %d ended with %v, want %v", l.Fence(), got, want)
	}
}

// forget deletes the lock's document, as a restart without the data would.
func forget(t *testing.T, s *storage.Store) {
	t.Helper()
	if err := s.Blobs("quorum").Delete(t.Context(), name, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
}

// weather is bad for one process, and lets it stand still now and then.
func weather(s *storage.Store, r *rand.Rand) *storage.Store {
	return agreetest.Weather{Odds: 16, Slow: time.Second, Late: ttl, Pause: 2 * ttl}.Over(s, r, new(sync.WaitGroup))
}

// A watch sees all locks of a name. It fails the test when two are alive at once, or fences don't rise.
type watch struct {
	mu    sync.Mutex
	locks []*quorum.Lock
}

func (w *watch) see(t *testing.T, l *quorum.Lock) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, old := range w.locks {
		if old.Context().Err() == nil && l.Context().Err() == nil {
			t.Errorf("locks %d and %d are both alive", old.Fence(), l.Fence())
		}
		if old.Fence() >= l.Fence() {
			t.Errorf("lock %d comes after %d", l.Fence(), old.Fence())
		}
	}
	w.locks = append(w.locks, l)
}
