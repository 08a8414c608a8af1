package quorum_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestFirstUse(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		var calls storagetest.Calls
		counted := make([]*storage.Store, 3)
		for i, s := range stores {
			counted[i] = storagetest.Intercept(s, calls.Hook)
		}
		begin := time.Now()
		l, err := try(counted)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if took, n := time.Since(begin), calls.Count(); took != 0 || n != 6 || l.Fence() != 1 {
			t.Errorf("lock %d after %v and %d calls, want 1 after 0s and 6", l.Fence(), took, n)
		}
		release(t, l)
		if n := calls.Count(); n != 9 {
			t.Errorf("%d calls with the release, want 9", n)
		}
		l = acquire(t, counted)
		synctest.Wait()
		release(t, l)
		if n := calls.Count(); n != 18 || l.Fence() != 2 {
			t.Errorf("%d calls for two locks, the second %d; want 18 and 2", n, l.Fence())
		}
	})
}

// Nobody knows the name, and one store doesn't answer: it might have a holder.
func TestFirstUseWithoutOneStore(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		p := newProcess(stores)
		p.cut(1)
		begin := time.Now()
		l := acquire(t, p.stores)
		if took := time.Since(begin); took < ttl*7/6 || took > 2*ttl {
			t.Errorf("acquired after %v, want 7/6 of the TTL and a pause or two", took)
		}
		p.restore(1)
		time.Sleep(2 * ttl) // the holder makes the third one known, too
		release(t, l)
		p.cut(0)
		begin = time.Now()
		next := acquire(t, p.stores)
		if took := time.Since(begin); took != 0 || next.Fence() <= l.Fence() {
			t.Errorf("lock %d after %v, %d before", next.Fence(), took, l.Fence())
		}
		release(t, next)
	})
}

// A holder has the stores 0 and 1, while 2 is away. It dies when 0 forgets. A process that sees 2 again, and perhaps 1,
// gets nothing within the TTL.
func TestAStoreThatForgotStaysOut(t *testing.T) {
	t.Parallel()
	for name, oneIsAway := range map[string]bool{"all answer": false, "one is away": true} {
		for use, known := range map[string]bool{"first use": false, "known": true} {
			t.Run(name+"/"+use, func(t *testing.T) {
				t.Parallel()
				virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
					if known {
						release(t, acquire(t, stores))
					}
					p, q := newProcess(stores), newProcess(stores)
					p.cut(2)
					l := acquire(t, p.stores)
					var seen watch
					seen.see(t, l)
					p.cut(0, 1)
					if oneIsAway {
						q.cut(1)
						back := time.AfterFunc(4*ttl, func() { q.restore(1) })
						defer back.Stop()
					}
					forget(t, stores[0])
					begin := time.Now()
					if l, err := try(q.stores); err == nil {
						t.Fatalf("Try got lock %d", drop(l))
					}
					next := acquire(t, q.stores)
					if known || !oneIsAway { // else most stores have no document: the name counts as new
						seen.see(t, next)
					}
					if took := time.Since(begin); took < ttl*7/6 {
						t.Errorf("acquired after %v", took)
					}
					wantCause(t, l, quorum.ErrLost)
					_ = l.Release(t.Context())
					release(t, next)
				})
			})
		}
	}
}

// The one store that has the last holder's fence besides the one that forgot it is away. The lock isn't to be had
// until it is back: the fence would go backwards.
func TestAFenceNeverGoesBack(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		release(t, acquire(t, stores))
		p := newProcess(stores)
		p.cut(2)
		var last *quorum.Lock
		for range 5 {
			last = acquire(t, p.stores)
			release(t, last)
		}
		forget(t, stores[0])
		p.restore(2)
		p.cut(1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
		defer cancel()
		if l, err := quorum.Acquire(ctx, p.stores, name, quorum.Config{TTL: ttl}); err == nil {
			t.Fatalf("got lock %d after %d", drop(l), last.Fence())
		}
		p.restore(1)
		next := acquire(t, p.stores)
		if next.Fence() <= last.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), last.Fence())
		}
		synctest.Wait() // the holder makes the store 0 know the lock
		release(t, next)
		p.cut(1)
		again := acquire(t, p.stores)
		if again.Fence() <= next.Fence() {
			t.Errorf("fence %d after %d", again.Fence(), next.Fence())
		}
		release(t, again)
	})
}

// A store forgets under a holder: it goes on with the others, and makes that store know the lock again.
func TestAStoreForgetsUnderAHolder(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		p := newProcess(stores)
		l := acquire(t, p.stores)
		for i := range stores {
			forget(t, stores[i])
			time.Sleep(ttl)
			p.cut((i + 1) % 3)
			time.Sleep(3 * ttl)
			if err := context.Cause(l.Context()); err != nil {
				t.Errorf("it ended: %v", err)
			}
			p.restore((i + 1) % 3)
			time.Sleep(ttl)
		}
		release(t, l)
	})
}

// A store fails over to a replica that hasn't got the lock yet. One store's lock is then held twice. This one isn't:
// the replica is one of three.
func TestFailover(t *testing.T) {
	t.Parallel()
	for what, known := range map[string]bool{"the replica has no document": false, "the replica has an old document": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
				if known {
					release(t, acquire(t, stores))
				}
				replica := replicate(t, stores[0], filepath.Join(dir, "replica"))
				p := newProcess(stores)
				var seen watch
				l := acquire(t, p.stores)
				seen.see(t, l)
				synctest.Wait()
				after := []*storage.Store{replica, stores[1], stores[2]}
				if next, err := try(after); !errors.Is(err, quorum.ErrHeld) {
					t.Fatalf("got lock %d, %v", drop(next), err)
				}
				p.cut(0, 1, 2)
				next := acquire(t, after)
				seen.see(t, next)
				release(t, next)
				_ = l.Release(t.Context())
			})
		})
	}
}

// replicate opens a copy of a store as it is now.
func replicate(t *testing.T, s *storage.Store, path string) *storage.Store {
	t.Helper()
	copied := agreetest.Open(t, path)
	b, err := s.Blobs("quorum").Get(t.Context(), name, "")
	if err == nil {
		_, err = copied.Blobs("quorum").Put(t.Context(), name, b.Body, storage.Condition{})
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		t.Fatal(err)
	}
	return copied
}
