package worker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// Patience counts from when an event is seen to wait, however long the key was idle before. So an event that comes
// somewhat late still comes in its order.
func TestLawInOrderAfterAnIdleTime(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		l := newLane(t, s, nil, handlers.TurnConfig{}, func(context.Context, Added) error { return nil })
		l.Start(worker.Config{Logger: slog.New(l.log)})
		l.emit(t, "a", 1, 0)
		time.Sleep(20 * time.Minute)
		l.emit(t, "a", 3, 2)
		time.Sleep(time.Second)
		l.emit(t, "a", 2, 1)
		time.Sleep(time.Minute)
		l.wantRuns(t, "after 20 idle minutes", "a", 1, 2, 3)
		if n := l.log.Count("WARN an event waits"); n != 0 {
			t.Errorf("%d gaps were noted; want none", n)
		}
	})
}

// Two workers that share the events of one source run them in order, burst after burst.
func TestLawInOrderByTwoWorkers(t *testing.T) {
	parttest.InTurn(t)
	virtually(t, func(t *testing.T, s *storage.Store) {
		f := func(context.Context, Added) error { time.Sleep(20 * time.Millisecond); return nil }
		l := newLane(t, s, nil, handlers.TurnConfig{}, f)
		l.Start(worker.Config{Name: "w1", Concurrency: 1, MaxInHand: 1})
		newLane(t, s, l.done, handlers.TurnConfig{}, f).Start(worker.Config{Name: "w2", Concurrency: 1, MaxInHand: 1})
		for range 20 {
			for range 4 {
				worldtest.Send(l.World, Add{To: "a", Amount: 1})
			}
			time.Sleep(20 * time.Minute)
		}
		got := l.runs("a")
		if len(got) != 80 {
			t.Errorf("got %d runs, want 80", len(got))
		}
		for i := 1; i < len(got); i++ {
			if got[i] < got[i-1] {
				t.Errorf("%d ran after %d", got[i], got[i-1])
			}
		}
	})
}

// When others go past an event that never comes, those that have come keep their order.
func TestLawInOrderPastAGap(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		l := newLane(t, s, nil, handlers.TurnConfig{}, func(context.Context, Added) error { return nil })
		l.Start(worker.Config{})
		l.emit(t, "a", 1, 0)
		time.Sleep(time.Second)
		for i := 3; i <= 12; i++ {
			l.emit(t, "a", i, i-1)
			time.Sleep(700 * time.Millisecond)
		}
		time.Sleep(40 * time.Minute)
		l.wantRuns(t, "2 is missing", "a", 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
	})
}

// An event that is sent back from the poison queue runs, though the key was quiet meanwhile for so long that nobody
// knows of it any more.
func TestLawInOrderAfterAQuietTimePoisonComesBack(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		bad := true
		l := newLane(t, s, nil, handlers.TurnConfig{}, func(_ context.Context, e Added) error {
			if e.Balance == 2 && bad {
				return handlers.Poison("bad", nil)
			}
			return nil
		})
		l.Start(worker.Config{})
		l.emit(t, "a", 1, 0)
		l.emit(t, "a", 2, 1)
		time.Sleep(time.Minute)
		// The row goes after a quiet month.
		if err := s.Table("turns").Delete(t.Context(), "audits", "/accounts/a", storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		l.emitAfter(t, "a", 3, 2, time.Now().Add(-31*24*time.Hour))
		time.Sleep(time.Minute)
		bad = false
		l.emit(t, "a", 2, 1)
		time.Sleep(time.Hour)
		l.wantRuns(t, "sent back", "a", 1, 2, 3, 2)
	})
}
