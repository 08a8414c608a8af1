package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/storage"
)

func TestWhereAllOnlyTryADeadHolderIsFollowed(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		dying, other, late := newProcess(stores), newProcess(stores), newProcess(stores)
		l, err := quorum.Acquire(t.Context(), dying.stores, name, quorum.Config{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		dying.cut(0, 1, 2)
		<-l.Context().Done()
		held := func(p *process) {
			t.Helper()
			if l, err := quorum.Try(t.Context(), p.stores, name, quorum.Config{TTL: ttl}); !errors.Is(err, quorum.ErrHeld) {
				t.Fatalf("Try returned %v, %v; want ErrHeld", l, err)
			}
		}
		held(other)
		time.Sleep(ttl*7/6 - 1)
		held(other)
		time.Sleep(time.Nanosecond)
		held(late)
		next, err := quorum.Try(t.Context(), other.stores, name, quorum.Config{TTL: ttl})
		if err != nil || next.Fence() <= l.Fence() {
			t.Fatalf("Try returned %v, %v; want the lock with a larger fence", next, err)
		}
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A holder that only tries is killed, and so is a store. A process that is new each time never gets the lock, until
// somebody frees it, 7/6 of the TTL after that began.
func TestFreeForThoseWhoTryOnce(t *testing.T) {
	t.Parallel()
	for what, dead := range map[string][]int{"all stores are well": nil, "one store is dead": {1}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
				dying := newProcess(stores)
				l, err := try(dying.stores)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second) // a majority was enough; the third store has its document, too, by now
				dying.cut(0, 1, 2)
				fresh := func() *process {
					p := newProcess(stores)
					p.cut(dead...)
					return p
				}
				for range 4 {
					time.Sleep(ttl)
					if l, err := try(fresh().stores); err == nil {
						t.Fatalf("Try returned lock %d, which may be held", drop(l))
					}
				}
				began := time.Now()
				if err := free(t.Context(), fresh()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < ttl*7/6 || took > 2*ttl {
					t.Errorf("it was free after %v, want 7/6 of the TTL, and somewhat more", took)
				}
				next, err := try(fresh().stores)
				if err != nil || next.Fence() <= l.Fence() {
					t.Fatalf("Try returned %v, %v; want the lock with a larger fence", next, err)
				}
				release(t, next)
			})
		})
	}
}

func free(ctx context.Context, p *process) error {
	return quorum.Free(ctx, p.stores, name, quorum.Config{TTL: ttl})
}

// A holder that lives keeps its lock. A lock that nobody holds is free at once, and one whose holder releases it soon.
func TestFreeSparesALiveHolder(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		l := acquire(t, newProcess(stores).stores)
		operator := newProcess(stores)
		for range 2 { // the second one goes on with what the first has seen
			began := time.Now()
			if err := free(t.Context(), operator); !errors.Is(err, quorum.ErrHeld) || time.Since(began) != 3*ttl {
				t.Errorf("got %v after %v, want ErrHeld after three times the TTL", err, time.Since(began))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		if err := free(ctx, operator); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
		wantCause(t, l, nil)
		time.AfterFunc(ttl/2, func() { release(t, l) })
		began := time.Now()
		if err := free(t.Context(), operator); err != nil || time.Since(began) > ttl {
			t.Errorf("got %v after %v, want nil soon after the release", err, time.Since(began))
		}
		began = time.Now()
		if err := free(t.Context(), operator); err != nil || time.Since(began) > 0 {
			t.Errorf("got %v after %v, want nil at once", err, time.Since(began))
		}
		operator.cut(0, 2)
		if err := free(t.Context(), operator); !errors.Is(err, quorum.ErrHeld) || !strings.Contains(err.Error(), "store unavailable") {
			t.Errorf("got %v without a majority of stores, want ErrHeld and why", err)
		}
		if err := quorum.Free(t.Context(), nil, name, quorum.Config{}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("got %v without stores, want ErrInvalid", err)
		}
	})
}
