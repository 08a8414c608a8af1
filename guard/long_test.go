package guard_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// Law 7: handlers that do other things for long keep no queue from its probe and its ramp: as the only queue of a
// guard, and as one of two.
func TestLaw7LongHandlersKeepNoQueueFromItsProbe(t *testing.T) {
	for queues, long := range map[int]int{1: 4, 2: 3} {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &service{took: 10 * time.Millisecond}
				w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{Timeout: time.Hour}, channel.Command[job]("jobs"), channel.Command[chore]("chores"))
				g := guard.New("bank", guard.Config{Logger: quietLogger()})
				var done atomic.Int64
				work := func(ctx context.Context, n int) error {
					if n < 0 {
						_ = worldtest.Pause(ctx, 50*time.Minute)
					}
					err := g.Do(ctx, s.call)
					if err == nil {
						done.Add(1)
					}
					return err
				}
				handlers.React(w.Registry, "jobs", func(ctx context.Context, j job) error { return work(ctx, j.N) })
				cfg := worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}}
				if queues > 1 {
					handlers.React(w.Registry, "chores", func(ctx context.Context, c chore) error { return work(ctx, c.N) })
					cfg.Queues["chores"] = worker.QueueConfig{Limiter: g.Limiter}
				}
				stop := w.Start(cfg)
				for range long {
					worldtest.Send(w, job{-1})
					if queues > 1 {
						worldtest.Send(w, chore{-1})
					}
				}
				time.Sleep(time.Minute)
				s.set(errDown)
				for i := range 100 {
					worldtest.Send(w, job{i})
					time.Sleep(100 * time.Millisecond)
				}
				worldtest.Want(t, "open", g.Open(), true)
				s.set(nil)
				time.Sleep(5 * time.Minute)
				worldtest.Want(t, "done five minutes after the service was back", done.Load(), 100)
				time.Sleep(2 * time.Hour)
				worldtest.Want(t, "done in the end", done.Load(), int64(100+queues*long))
				if err := stop(); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// Law 7: calls that decide on their messages themselves, and so tell nothing of the service, end an outage, too.
func TestLaw7ProbesThatDecideThemselves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &service{took: 10 * time.Millisecond}
		g := guard.New("bank", guard.Config{Logger: quietLogger()})
		w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, channel.Command[job]("jobs"))
		handlers.React(w.Registry, "jobs", func(ctx context.Context, _ job) error {
			return g.Do(ctx, func(ctx context.Context) error {
				if err := s.call(ctx); err != nil {
					return err
				}
				return handlers.Later(5*time.Second, "the bank is still at it")
			})
		})
		stop := w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}})
		for i := range 200 {
			worldtest.Send(w, job{i})
		}
		time.Sleep(10 * time.Second)
		s.set(errDown)
		time.Sleep(30 * time.Second)
		worldtest.Want(t, "open", g.Open(), true)
		s.set(nil)
		time.Sleep(2 * time.Minute)
		worldtest.Want(t, "limits", limits(t, g), worker.Limits{})
		if err := stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

// A call outside of a handler asks for the right to probe, while the last worker stops and another one starts.
func TestAWorkerStartsWhileACallClaimsTheProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "get blob" {
				_ = worldtest.Pause(context.WithoutCancel(ctx), time.Second)
			}
			return do()
		})
		g := guard.New("bank", guard.Config{Logger: quietLogger()})
		begin := func() func() error {
			w := worldtest.NewBare(t, store, handlers.Config{}, channel.Command[job]("jobs"))
			handlers.React(w.Registry, "jobs", func(context.Context, job) error { return nil })
			return w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}})
		}
		stop := begin()
		time.Sleep(time.Second)
		for range 25 {
			_ = g.Do(t.Context(), ends(errDown))
		}
		time.Sleep(20 * time.Second)
		for range 20 {
			go func() { _ = g.Do(t.Context(), ends(errDown)) }()
			time.Sleep(300 * time.Millisecond)
			err := stop()
			stop = begin()
			worldtest.WantErr(t, err, nil)
			time.Sleep(3 * time.Second)
		}
		worldtest.Want(t, "open", g.Open(), true)
		err := stop()
		worldtest.WantErr(t, err, nil)
		time.Sleep(time.Minute)
	})
}
