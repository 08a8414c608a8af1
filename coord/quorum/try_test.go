package quorum_test

import (
	"errors"
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
