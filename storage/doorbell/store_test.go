package doorbell

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// withoutRings hides a store's rings, and keeps its other abilities: atomic commits, counted requests.
func withoutRings(s *storage.Store) *storage.Store {
	return storage.New(ringless{s.Driver()})
}

type ringless struct{ driver.Store }

func (ringless) Listener() driver.Listener { return nil }

func TestAbilities(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	own, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Over(own, Config{Listen: "nonsense"}); err != nil || s.Store != own || s.Counts() != (Counts{}) {
		t.Errorf("over a store that rings: got %v, %v; want that store", s, err)
	}
	if _, err := Over(plain(t, path), Config{Listen: "nonsense"}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("with a bad Config: error %v", err)
	}
	s, err := Over(withoutRings(own), loopback())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.Atomic() || !s.Rings() || s.Requests() == nil {
		t.Errorf("atomic: %v, rings: %v, requests: %v; want all of them", s.Atomic(), s.Rings(), s.Requests())
	}
	sub := s.Listen("queue")
	defer sub.Close()
	if _, _, ok := sub.Claim(1, time.Minute); ok {
		t.Error("it can claim")
	}
	ring := sub.Rings()
	work := storage.Work{
		Write: &storage.Write{Container: "container", Key: "key", If: storage.Condition{IfAbsent: true}},
		Send:  []storage.Send{{Queue: "queue"}},
	}
	if _, err := s.Commit(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	wantRing(t, ring, "an atomic commit")
	if _, err := s.Commit(t.Context(), work); !errors.Is(err, storage.ErrExists) {
		t.Fatalf("the same again: error %v", err)
	}
	got, err := s.Queue("queue").Receive(t.Context(), 1, time.Second)
	if err != nil || len(got) != 1 {
		t.Fatalf("received %v, %v", got, err)
	}
	if _, err := s.Commit(t.Context(), storage.Work{Delete: []storage.Claim{{Queue: "queue", Receipt: got[0].Receipt}}}); err != nil {
		t.Fatal(err)
	}
	if len(ring) != 0 {
		t.Error("a ring for a failed commit, or for a deletion")
	}
}

// TestCloseEndsEverything runs in a bubble, which ends only when all goroutines started in it have ended.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := Over(plain(t, path), loopback())
		if err != nil {
			t.Fatal(err)
		}
		sub := s.Listen("queue")
		registration, err := s.Subscribe(t.Context(), "topic", takesOne)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Publish(t.Context(), "topic", nil, false); n != 1 || err != nil {
			t.Errorf("published %d, error %v", n, err)
		}
		send(t, s, "queue")
		send(t, s, "other")
		if err := s.Queue("queue").Send(t.Context(), []storage.Message{{Delay: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		<-sub.Rings()
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
		<-registration.Lost()
		if _, err := s.Subscribe(t.Context(), "topic", takesOne); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("Subscribe after Close: error %v", err)
		}
		after := s.Listen("queue")
		if len(after.Rings()) != 0 {
			t.Error("a ring after Close")
		}
		after.Close()
		sub.Close()
		s.Ring("queue")
	})
}
