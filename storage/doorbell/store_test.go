package doorbell

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// able is a store with abilities, as a driver with counted requests or atomic commits would be.
type able struct {
	storage.Store
	storage.Committer
	storage.Tally
}

func (a *able) Unwrap() storage.Store { return a.Store }

func (a *able) Props() storage.Props {
	p := a.Store.Props()
	p.Atomic = true
	return p
}

// newAble hides what of a store is not wanted, above all its rings.
func newAble(s storage.Store) *able {
	committer, _ := storage.As[storage.Committer](s)
	return &able{Store: storagetest.Plain(s), Committer: committer}
}

func TestAbilities(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	own, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Over(own, Config{Fanout: -1}); s != own || err != nil {
		t.Errorf("over a store that rings: got %v, %v; want that store", s, err)
	}
	if _, err := Over(plain(t, path), Config{Fanout: -1}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("with a bad Config: error %v", err)
	}
	inner := newAble(own)
	s, err := Over(inner, loopback())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, ok := storage.As[storage.Meter](s); !ok {
		t.Error("a Meter beneath is not found")
	}
	if _, ok := storage.As[Counter](s); !ok {
		t.Error("it is no Counter")
	}
	if c, ok := storage.As[storage.Committer](s); !ok || c == inner.Committer {
		t.Error("a commit goes past the doorbell")
	}
	w, ok := storage.As[storage.Waker](s)
	if !ok {
		t.Fatal("it is no Waker")
	}
	ring, stop := w.Wake("queue")
	defer stop()
	work := storage.Work{
		Write: &storage.Write{Container: "container", Key: "key", If: storage.Condition{IfAbsent: true}},
		Send:  []storage.Send{{Queue: "queue"}},
	}
	if _, err := storage.Commit(t.Context(), s, work); err != nil {
		t.Fatal(err)
	}
	wantRing(t, ring, "an atomic commit")
	if _, err := storage.Commit(t.Context(), s, work); !errors.Is(err, storage.ErrExists) {
		t.Fatalf("the same again: error %v", err)
	}
	got, err := s.Queue("queue").Receive(t.Context(), 1, time.Second)
	if err != nil || len(got) != 1 {
		t.Fatalf("received %v, %v", got, err)
	}
	if _, err := storage.Commit(t.Context(), s, storage.Work{Delete: []storage.Claim{{Queue: "queue", Receipt: got[0].Receipt}}}); err != nil {
		t.Fatal(err)
	}
	if b := s.(*committing).bells; len(ring) != 0 || len(b.queues["queue"].held) != 0 {
		t.Errorf("%d rings and %+v; want none for a failed commit, and nothing in hand", len(ring), b.queues["queue"])
	}
}

// TestCloseEndsEverything runs in a bubble, which is left only when all that was started in it has ended.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := Over(plain(t, path), loopback())
		if err != nil {
			t.Fatal(err)
		}
		ring, stop := s.(storage.Waker).Wake("queue")
		send(t, s, "queue")
		send(t, s, "other")
		if err := s.Queue("queue").Send(t.Context(), []storage.Message{{Delay: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		<-ring
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := s.Queue("queue").Send(t.Context(), []storage.Message{{}}); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("send after Close: error %v", err)
		}
		ring, after := s.(storage.Waker).Wake("queue")
		if len(ring) != 0 {
			t.Error("a ring after Close")
		}
		after()
		stop()
	})
}
