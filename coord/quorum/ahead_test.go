package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/storage"
)

// plant writes a document with a fence that no holder had.
func plant(t *testing.T, s *storage.Store, id string, fence int64) {
	t.Helper()
	body := fmt.Sprintf(`{"holder":"x","id":%q,"fence":%d,"ttl":%d,"beat":1}`, id, fence, ttl.Milliseconds())
	if _, err := s.Blobs("quorum").Put(t.Context(), name, []byte(body), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// One store has a document with a huge fence, free or held. It counts as one dead store, and the others never get its
// fence, also not from a holder that takes it over.
func TestAHugeFenceInOneStoreIsADeadStore(t *testing.T) {
	t.Parallel()
	for _, fence := range []int64{1<<32 + 10, math.MaxInt64 / 4, math.MaxInt64/2 - 1, math.MaxInt64 / 2, math.MaxInt64 - 1} {
		for _, id := range []string{"", "somebody"} {
			t.Run(fmt.Sprintf("%d %q", fence, id), func(t *testing.T) {
				t.Parallel()
				virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
					release(t, acquire(t, stores))
					plant(t, stores[0], id, fence)
					for want := int64(2); want < 5; want++ {
						l := acquire(t, stores)
						time.Sleep(2 * ttl)
						if err := l.Context().Err(); err != nil || l.Fence() != want {
							t.Errorf("lock %d, %v; want %d, alive", l.Fence(), err, want)
						}
						release(t, l)
					}
					p := newProcess(stores)
					p.cut(1)
					if l, err := try(p.stores); err == nil {
						t.Errorf("got lock %d from one store of three", drop(l))
					}
					forget(t, stores[0])
					release(t, acquire(t, stores)) // the store learns the fence again
					time.Sleep(ttl)
				})
			})
		}
	}
}

// A fence that is only a little ahead is an honest one: the others missed its holders.
func TestAFenceALittleAheadCounts(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		release(t, acquire(t, stores))
		plant(t, stores[2], "", 1<<32)
		l, err := try(stores)
		if err != nil || l.Fence() != 1<<32+1 {
			t.Fatalf("lock %d, %v; want %d", drop(l), err, 1<<32+1)
		}
		release(t, l)
	})
}

// The name is new for two stores. The third one's document is no reason to begin with a huge fence, or to wait for
// ever.
func TestAHugeFenceBeforeTheFirstUse(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		plant(t, stores[0], "", math.MaxInt64/2)
		l := acquire(t, stores)
		if l.Fence() != 1 {
			t.Errorf("lock %d, want 1", l.Fence())
		}
		release(t, l)
	})
}

// Huge fences in a majority are more than a lock can bear: the error says what to delete.
func TestHugeFencesInAMajority(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		release(t, acquire(t, stores))
		plant(t, stores[0], "", math.MaxInt64-1)
		plant(t, stores[1], "", math.MaxInt64-1)
		_, err := quorum.Acquire(context.WithoutCancel(t.Context()), stores, name, quorum.Config{TTL: ttl})
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
	})
}
