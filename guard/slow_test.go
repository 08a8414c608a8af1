package guard_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// A breaker opens however long calls take, and however few there are: twenty failures in a row last for longer than its
// window then.
func TestLaw1SlowAndRareCalls(t *testing.T) {
	for what, c := range map[string]struct {
		rate    guard.Rate
		timeout time.Duration
		handler int // at a time
		hangs   bool
	}{
		"rare":                 {rate: guard.PerMinute(12), handler: 8},
		"hangs":                {timeout: 3 * time.Second, handler: 1, hangs: true},
		"hangs for long":       {timeout: 30 * time.Second, handler: 4, hangs: true},
		"hangs, many a moment": {timeout: 30 * time.Second, handler: 16, hangs: true},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{Logger: quietLogger(), Timeout: time.Minute}, channel.Command[job]("jobs"))
				for i := range 400 {
					worldtest.Send(w, job{N: i})
				}
				g := guard.New("smtp", guard.Config{Rate: c.rate, Timeout: c.timeout, Repeatable: true, Logger: quietLogger()})
				var calls atomic.Int64
				handlers.React(w.Registry, "jobs", func(ctx context.Context, _ job) error {
					return g.Do(ctx, func(ctx context.Context) error {
						calls.Add(1)
						if !c.hangs {
							return errDown
						}
						<-ctx.Done()
						return ctx.Err()
					})
				})
				stop := w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter, Concurrency: c.handler}}})
				time.Sleep(10 * time.Minute)
				if !g.Status().Open || calls.Load() > 60 {
					t.Errorf("%d calls in an outage of ten minutes, and a breaker of status %+v", calls.Load(), g.Status())
				}
				worldtest.Want(t, "poisoned jobs", len(w.Poisoned("jobs")), 0)
				worldtest.WantErr(t, stop(), nil)
				time.Sleep(10 * time.Minute)
			})
		})
	}
}
