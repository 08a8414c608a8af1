package redis

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A program that was taken for dead, and comes back, misses none of its changes, however many others have died.
func TestAProgramThatComesBackHasLostNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, inner := openStore(t, server.URL("app"))
	watcher, judge := openStore(t, server.URL("app"))
	must(t, s.Queue("jobs").Send(t.Context(), texts("x", "y")))
	must(t, watcher.Queue("jobs").Send(t.Context(), texts("x", "y")))
	inner.ear.close()
	until(t, "the program counts as dead", func() bool {
		_, err := judge.e.Release(t.Context(), claimTrust, []string{inner.e.Process()})
		must(t, err)
		return !strings.Contains(server.Do(t, "SMEMBERS", "{app}:P"), inner.e.Process())
	})
	for n := range 3001 { // others have died: an hour ago, or in another year
		server.Do(t, "HSET", "{app}:X", fmt.Sprintf("dead%04d", n), []string{"1@1000", "1@9000000000000000"}[n%2], fmt.Sprintf("c0:dead%04d", n), "1 x")
	}
	_, err := judge.e.Release(t.Context(), claimTrust, []string{"somebody"})
	must(t, err)
	if n := server.Do(t, "HLEN", "{app}:X"); n != "3002" && n != "3003" && n != "3004" {
		t.Errorf("%s things are kept of the dead; want those of the last day, 3000 and those of this program", n)
	}
	if lost, _, err := inner.e.Losses(t.Context()); err != nil || lost != 0 {
		t.Errorf("%d changes are told as lost (%v), and none is", lost, err)
	}
	must(t, s.Queue("jobs").Send(t.Context(), texts("z")))
	if n := inner.e.Lost(); n != 0 {
		t.Errorf("%d changes are told as lost, and none is", n)
	}
}

func processOf(s *storage.Store) string { return s.Driver().(*store).e.Process() }

// Each process knows its own changes. So what others change after a failover hides no loss, and no process tells the
// loss of another one.
func TestEachProcessTellsItsOwnLoss(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, shared)
	prefix := redistest.Fresh()
	busy, _ := openStore(t, server.URL(prefix))
	other, _ := openStore(t, server.URL(prefix))
	for range 20 {
		must(t, busy.Queue("jobs").Send(t.Context(), texts("x")))
	}
	must(t, other.Queue("jobs").Send(t.Context(), texts("x")))
	server.Do(t, "HINCRBY", "{"+prefix+"}", "n:"+processOf(busy), "-10") // as a failover to a replica that lagged
	for range 15 {
		must(t, other.Queue("jobs").Send(t.Context(), texts("x")))
	}
	must(t, busy.Queue("jobs").Send(t.Context(), texts("x")))
	must(t, busy.Queue("jobs").Send(t.Context(), texts("x")))
	for s, want := range map[*storage.Store]int64{busy: 10, other: 0} {
		if got := s.Driver().(*store).e.Lost(); got != want {
			t.Errorf("the process tells %d lost changes, want %d", got, want)
		}
	}
	if got := server.Do(t, "HGET", "{"+prefix+"}", "lost"); got != "10" {
		t.Errorf("the store tells %q lost changes, want 10", got)
	}
}

// A process whose connection was away for long counts as dead. That it lives is no loss.
func TestAProcessThatCountedAsDeadTellsNoLoss(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, shared)
	prefix := redistest.Fresh()
	s, _ := openStore(t, server.URL(prefix))
	watcher, _ := openStore(t, server.URL(prefix))
	must(t, s.Queue("jobs").Send(t.Context(), texts("x", "y")))
	inner := s.Driver().(*store)
	inner.ear.close() // its connection for subscriptions alone
	process := inner.e.Process()
	for strings.Contains(server.Do(t, "SMEMBERS", "{"+prefix+"}:P"), process) {
		if _, err := watcher.Driver().(*store).e.Release(t.Context(), claimTrust, []string{process}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, s.Queue("jobs").Send(t.Context(), texts("z")))
	if got := inner.e.Lost(); got != 0 {
		t.Errorf("the process tells %d lost changes, want none", got)
	}
	if got, want := server.Do(t, "HGET", "{"+prefix+"}", "n:"+process), strconv.Itoa(2); got != want {
		t.Errorf("the store counts %s changes, want %s", got, want)
	}
}

// A change that a condition refuses changes nothing, so its loss is none.
func TestARefusedChangeDoesNotCount(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, shared)
	prefix := redistest.Fresh()
	s, _ := openStore(t, server.URL(prefix))
	absent := storage.Condition{IfAbsent: true}
	docs := s.Blobs("docs")
	_, err := docs.Put(t.Context(), "a", []byte("1"), absent)
	must(t, err)
	if _, err := docs.Put(t.Context(), "a", []byte("2"), absent); !storage.LostRace(err) {
		t.Fatalf("the second write: %v, want a lost race", err)
	}
	if got := server.Do(t, "HGET", "{"+prefix+"}", "n:"+processOf(s)); got != "1" {
		t.Errorf("the store counts %s changes, want 1", got)
	}
}
