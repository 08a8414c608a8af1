package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// wantNonePassed fails the test if the others of a key went past a message, or it halted.
func wantNonePassed(t *testing.T, log *worldtest.Log) {
	t.Helper()
	for _, line := range []string{"ERROR a message halts its key", "WARN a message that should come first"} {
		worldtest.Want(t, line, log.Count(line), 0)
	}
}

// A message that failed comes again behind the backlog of its priority. The others of its key, in one without a
// backlog, wait for it.
func TestLawOneAtATimeABacklogOfALaneIsWaitedFor(t *testing.T) {
	parttest.InTurn(t)
	withAndWithoutHalt(t, func(t *testing.T, s *storage.Store, cfg handlers.TurnConfig) {
		log := worldtest.NewLog()
		var runs []int
		w := worldtest.NewBare(t, s, handlers.Config{Logger: slog.New(log)}, channel.Command[visit]("visits"), channel.Priorities("visits"))
		failed := false
		handlers.OneAtATime(w.Registry, "visits", func(e visit) string { return e.Key }, func(_ context.Context, e visit) error {
			if e.Key != "a" {
				time.Sleep(long)
				return nil
			}
			runs = append(runs, e.N)
			if e.N == 1 && !failed {
				failed = true
				return errors.New("fails once")
			}
			return nil
		})
		handlers.Turns(w.Registry, "visits", handlers.TurnConfig{Halt: cfg.Halt, Patience: 15 * time.Minute})
		send := func(p channel.Priority, v visit) {
			if err := w.Channels.Send(channel.WithPriority(t.Context(), p), v); err != nil {
				t.Fatal(err)
			}
		}
		send(channel.Low, visit{Key: "a", N: 1})
		for i := range 120 {
			send(channel.Low, visit{Key: fmt.Sprint("k", i), N: i})
		}
		w.Start(oneAtATime(log, "visits", 0))
		time.Sleep(time.Second)
		send(channel.Normal, visit{Key: "a", N: 2})
		time.Sleep(90 * time.Minute)
		worldtest.Want(t, "runs", fmt.Sprint(runs), fmt.Sprint([]int{1, 1, 2}))
		wantNonePassed(t, log)
	})
}

// Events of one value object may have different tenants, and so different lanes. A backlog in one of them is no gap.
func TestLawInOrderABacklogOfALaneIsWaitedFor(t *testing.T) {
	parttest.InTurn(t)
	withAndWithoutHalt(t, func(t *testing.T, s *storage.Store, cfg handlers.TurnConfig) {
		log := worldtest.NewLog()
		var runs []int
		w := worldtest.NewBare(t, s, handlers.Config{Logger: slog.New(log)}, channel.Event[Added]("audits"), channel.InOrder("audits"), channel.Lanes("audits", 8))
		handlers.ReactInOrder(w.Registry, "audits", func(_ context.Context, e Added) error {
			if e.To != "a" {
				time.Sleep(long)
				return nil
			}
			runs = append(runs, e.Balance)
			return nil
		})
		handlers.Turns(w.Registry, "audits", handlers.TurnConfig{Halt: cfg.Halt, Patience: 15 * time.Minute})
		put := func(tenant string, e channel.Envelope) {
			e.Tenant = tenant
			body, err := e.Encode()
			if err == nil {
				err = w.Channels.Store().Queue("audits").Send(t.Context(), []storage.Message{{Body: body}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 150 {
			put("t", event(fmt.Sprint("k", i), 1, 0, time.Now()))
		}
		put("t", event("a", 1, 0, time.Now()))
		put("u", event("a", 2, 1, time.Now()))
		w.Start(oneAtATime(log, "audits", 0))
		time.Sleep(90 * time.Minute)
		worldtest.Want(t, "runs", fmt.Sprint(runs), fmt.Sprint([]int{1, 2}))
		wantNonePassed(t, log)
	})
}

// Where no lane holds what should come first, the others go past it soon.
func TestLawInOrderPatienceEndsInLanes(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		log := worldtest.NewLog()
		var runs []int
		w := worldtest.NewBare(t, s, handlers.Config{Logger: slog.New(log)}, channel.Event[Added]("audits"), channel.InOrder("audits"), channel.Lanes("audits", 8))
		handlers.ReactInOrder(w.Registry, "audits", func(_ context.Context, e Added) error { runs = append(runs, e.Balance); return nil })
		l := &lane{world: world{World: w}}
		l.emit(t, "a", 1, 0)
		l.emit(t, "a", 3, 2)
		w.Start(oneAtATime(log, "audits", 0))
		time.Sleep(20 * time.Minute)
		worldtest.Want(t, "runs", fmt.Sprint(runs), fmt.Sprint([]int{1, 3}))
	})
}
