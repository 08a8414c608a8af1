package redis

import (
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A process that is back early after a restart or a failover leaves the others their messages, because they may still
// look for the server.
func TestLawNobodyIsJudgedBeforeTheOthersCanBeBack(t *testing.T) {
	t.Parallel()
	t.Run("a restart", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Config{})
		lateReturn(t, server, func() *redistest.Server {
			server.Kill(t)
			server.Restart(t)
			return server
		})
	})
	t.Run("a failover", func(t *testing.T) {
		t.Parallel()
		master := redistest.Start(t, redistest.Config{})
		replica := redistest.Start(t, redistest.Config{ReplicaOf: master})
		lateReturn(t, master, func() *redistest.Server {
			awaitCopy(t, master, replica)
			replica.Promote(t)
			master.Kill(t)
			return replica
		})
	})
}

// lateReturn has two programs, of which one is back after the loss of the server, and the other one later.
func lateReturn(t *testing.T, server *redistest.Server, fail func() *redistest.Server) {
	early, late := newLink(t, server), newLink(t, server)
	s, judges := openStore(t, early.url("app"))
	other, _ := openStore(t, late.url("app"))
	must(t, s.Queue("jobs").Send(t.Context(), texts("a")))
	held := receiveOne(t, other.Queue("jobs"), time.Hour)

	must(t, os.Remove(string(late)))
	next := fail()
	early.point(t, next)
	until(t, "the early program is back, and hears nothing of the late one", func() bool {
		names, err := judges.e.Silent(t.Context())
		return err == nil && judges.ear.heard() > 0 && len(names) == 1
	})
	r := &releaser{s: judges, log: slog.New(slog.DiscardHandler)}
	for range 3 {
		r.look(t.Context())
	}
	if got := receiveFrom(t, s.Queue("jobs")); len(got) != 0 {
		t.Fatalf("the late program lives, and its message was given to the early one")
	}
	fresh, second := openStore(t, early.url("app"))
	r = &releaser{s: second, log: slog.New(slog.DiscardHandler)}
	for range 3 {
		r.look(t.Context())
	}
	if got := receiveFrom(t, fresh.Queue("jobs")); len(got) != 0 {
		t.Fatalf("the late program lives, and its message was given to one that was started after the failure")
	}
	late.point(t, next)
	until(t, "the late program is back", func() bool {
		names, err := judges.e.Silent(t.Context())
		return err == nil && len(names) == 0
	})
	must(t, other.Queue("jobs").Delete(t.Context(), []storage.Receipt{held.Receipt}))
}

func receiveFrom(t *testing.T, q *storage.Queue) []storage.Delivery {
	t.Helper()
	got, err := q.Receive(t.Context(), 10, time.Hour)
	must(t, err)
	return got
}

// Once others had the time to come back, two looks release what the missing ones hold.
func TestTwoLooksReleaseWhatTheDeadHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	here, gone := newLink(t, server), newLink(t, server)
	s, inner := openStore(t, here.url("app"))
	other, _ := openStore(t, gone.url("app"))
	must(t, s.Queue("jobs").Send(t.Context(), texts("a")))
	receiveOne(t, other.Queue("jobs"), time.Hour)
	must(t, os.Remove(string(gone)))
	server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	until(t, "the other one is gone", func() bool {
		names, err := inner.e.Silent(t.Context())
		return err == nil && inner.ear.heard() > 0 && slices.Contains(names, other.Driver().(*store).e.Process())
	})
	r := &releaser{s: inner, log: slog.New(slog.DiscardHandler), settled: 1}
	r.look(t.Context())
	if got := receiveFrom(t, s.Queue("jobs")); len(got) != 0 {
		t.Fatal("one look has released a message")
	}
	r.look(t.Context())
	receiveOne(t, s.Queue("jobs"), time.Hour)
}
