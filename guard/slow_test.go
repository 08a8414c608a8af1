package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
				stop := w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Turn: g.Turn, Concurrency: c.handler}}})
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

// A handler that has waited for a permit waits for the rest of InPlace at most before it repeats its call.
func TestLaw2AllWaitsOfAHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := guard.New("smtp", guard.Config{Rate: guard.PerSecond(5), Logger: quietLogger()})
		calls := 0
		for n := range 3 {
			begin := time.Now()
			_ = g.Do(handling(t, id(n), 1), func(context.Context) error { calls++; return errDown })
			if took := time.Since(begin); took > inPlace+settling {
				t.Errorf("handler %d was held for %v", n, took)
			}
		}
		if calls < 3 {
			t.Errorf("%d calls, so nothing was waited for", calls)
		}
	})
}

// Slots that are enough for all handlers of the only queue leave it as many messages in hand as it likes. A call that
// finds none ends that.
func TestSlotsThatDoNotBind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		g := guard.New("smtp", guard.Config{Slots: 1000, InPlace: guard.NotInPlace, Logger: quietLogger()})
		turn, err := g.Turn(t.Context(), worker.Consumer{Store: s, Queue: "jobs", Concurrency: 2, MaxInHand: 64})
		if err != nil {
			t.Fatal(err)
		}
		one := func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil }
		for n := range 200 { // the share is no more than they need
			var calls sync.WaitGroup
			for i := range 2 {
				calls.Go(func() { _ = g.Do(handling(t, id(2*n+i), 1), one) })
			}
			calls.Wait()
			time.Sleep(90 * time.Millisecond)
		}
		if l, _ := turn.Now(); l != (worker.Limits{}) {
			t.Errorf("got limits %+v, want none", l)
		}
		var calls sync.WaitGroup
		for i := range 8 { // more at a time than the queue was said to have
			calls.Go(func() { _ = g.Do(handling(t, id(500+i), 1), one) })
		}
		synctest.Wait()
		if l, _ := turn.Now(); l.MaxInHand == 0 {
			t.Errorf("a call found no slot, and the limits are %+v", l)
		}
		calls.Wait()
		worldtest.WantErr(t, turn.Leave(t.Context()), nil)
		time.Sleep(10 * time.Minute)
	})
}

// A worker that stops gives its part of the limits back at once, also while handlers wait for permits.
func TestLaw8AWorkerThatStopsLeaves(t *testing.T) {
	for _, perMinute := range []float64{60, 1200} {
		for moment := range 3 {
			t.Run(fmt.Sprintf("%v, %d", perMinute, moment), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := worldtest.OpenStore(t, worldtest.Virtual)
					stops := make([]func() error, 2)
					for i := range stops {
						w := worldtest.NewBare(t, s, handlers.Config{Logger: quietLogger()}, channel.Command[job]("jobs"))
						if i == 0 {
							for i := range 1000 {
								worldtest.Send(w, job{N: i})
							}
						}
						g := guard.New("smtp", guard.Config{Rate: guard.PerMinute(perMinute), Logger: quietLogger()})
						handlers.React(w.Registry, "jobs", func(ctx context.Context, _ job) error {
							return g.Do(ctx, func(ctx context.Context) error { return worldtest.Pause(ctx, 20*time.Millisecond) })
						})
						stops[i] = w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Turn: g.Turn}}})
					}
					time.Sleep(20*time.Second + time.Duration(moment)*77*time.Millisecond)
					worldtest.WantErr(t, stops[0](), nil)
					b, err := s.Blobs("shares").Get(t.Context(), "rate/smtp", "")
					var d struct{ Members map[string]any }
					if err != nil || json.Unmarshal(b.Body, &d) != nil {
						t.Fatal(err)
					}
					worldtest.Want(t, "members", len(d.Members), 1)
					worldtest.WantErr(t, stops[1](), nil)
					time.Sleep(10 * time.Minute)
				})
			})
		}
	}
}
