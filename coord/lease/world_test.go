package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	name = "nightly-report"
	ttl  = 30 * time.Second
)

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

// weather is bad for one process. late counts the writes that are still to come.
func weather(s *storage.Store, r *rand.Rand, late *sync.WaitGroup) *storage.Store {
	return agreetest.Weather{Odds: 12, Slow: 2 * time.Second, Late: ttl}.Over(s, r, late)
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

// eachCallFails runs f again and again. In each run another call through f's first store fails, before its effect or
// after it, until f makes fewer calls than that.
func eachCallFails(t *testing.T, least int64, f func(t *testing.T, failing, s *storage.Store)) {
	t.Helper()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(moment.String(), func(t *testing.T) {
			t.Parallel()
			hit := true
			for n := int64(1); hit && !t.Failed(); n++ {
				hit = false
				agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
					f(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
						if op.Seq != n {
							return do()
						}
						hit = true
						if moment == storagetest.AfterEffect {
							_ = do()
						}
						return op.Fail(storage.ErrUnavailable)
					}), s)
				})
				if t.Failed() {
					t.Errorf("stopped at call %d", n)
				}
				if !hit && n <= least {
					t.Errorf("there were %d calls only, want %d", n-1, least)
				}
			}
		})
	}
}

// wantState checks a lease's public state.
func wantState(t *testing.T, s *storage.Store, held bool, fence int64) lease.Info {
	t.Helper()
	info, err := lease.State(t.Context(), s, name)
	if err != nil || info.Held != held || info.Fence != fence {
		t.Errorf("the state is %+v, %v; want held %v, fence %d", info, err, held, fence)
	}
	return info
}

// inBackground acquires the lease in a goroutine. The channel gets it.
func inBackground(t *testing.T, s *storage.Store, cfg lease.Config) <-chan *lease.Lease {
	t.Helper()
	got := make(chan *lease.Lease, 1)
	go func() {
		defer close(got)
		l, err := lease.Acquire(t.Context(), s, name, cfg)
		if err != nil {
			if t.Context().Err() == nil {
				t.Error(err)
			}
			return
		}
		got <- l
	}()
	return got
}
