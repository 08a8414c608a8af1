package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// raised is a limiter that sets the concurrency of a queue, as its settings may.
type raised int

func (r raised) Now() (worker.Limits, <-chan struct{}) {
	return worker.Limits{Concurrency: int(r)}, nil
}

func (raised) Leave(context.Context) error { return nil }

// Law 10 with calls that take long: hardly a message is fetched to be refused, whether a limit is above or below the
// concurrency that the queue was made with, or was given since.
func TestLaw10WithSlowCallsAndARaisedConcurrency(t *testing.T) {
	parttest.InTurn(t)
	for _, cfg := range []guard.Config{{Slots: 10}, {Rate: 40}} {
		for made, to := range map[int]int{8: 8, 9: 64, 64: 64} {
			t.Run(fmt.Sprintf("%v calls a second, %d slots, from %d to %d", cfg.Rate, cfg.Slots, made, to), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					f := &fleet{t: t, store: worldtest.OpenStore(t, worldtest.Virtual), log: worldtest.NewLog(), took: time.Second}
					cfg := cfg
					cfg.Logger = slog.New(f.log)
					g := guard.New("smtp", cfg)
					w := worldtest.NewBare(t, f.store, handlers.Config{}, channel.Command[job]("jobs"))
					handlers.React(w.Registry, "jobs", func(ctx context.Context, _ job) error {
						err := g.Do(ctx, f.call)
						f.mu.Lock()
						defer f.mu.Unlock()
						if err == nil {
							f.done++
						} else {
							f.returned++
						}
						return err
					})
					open := func(context.Context, worker.Consumer) (worker.Limiter, error) { return raised(to), nil }
					limiter := worker.Limiters(worker.Limiters(g.Limiter, worker.Limiters()), open)
					stop := w.Start(worker.Config{Logger: slog.New(f.log), Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: made, Limiter: limiter}}})
					f.worlds = append(f.worlds, w)
					f.send(2500)
					time.Sleep(time.Minute)
					done, returned := f.counted()
					if want := 45 * min(to, max(cfg.Slots, int(cfg.Rate))); done < want || returned > done/50 {
						t.Errorf("%d done, %d refused; want at least %d done, and hardly any refused", done, returned, want)
					}
					if err := stop(); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Minute)
				})
			})
		}
	}
}

// Law 7: one handler that hangs stops no queue, while its guard lets one call through at a time: after an outage, with
// one slot, or with a slow rate.
func TestLaw7AHandlerThatHangsStopsNoQueue(t *testing.T) {
	for name, cfg := range map[string]guard.Config{"outage": {}, "rate": {Rate: guard.PerSecond(2)}, "slots": {Slots: 1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &service{took: 10 * time.Millisecond}
				w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{Timeout: 5 * time.Second}, channel.Command[job]("jobs"))
				cfg.Logger = quietLogger()
				g := guard.New("bank", cfg)
				end := make(chan struct{})
				var done atomic.Int64
				var hung atomic.Bool
				handlers.React(w.Registry, "jobs", func(ctx context.Context, j job) error {
					if j.N < 0 && !hung.Swap(true) {
						<-end
						return errors.New("it hung")
					}
					err := g.Do(ctx, s.call)
					if err == nil {
						done.Add(1)
					}
					return err
				})
				stop := w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}})
				worldtest.Send(w, job{-1})
				time.Sleep(time.Minute) // until it is given up
				if name == "outage" {
					s.set(errDown)
				}
				for i := range 100 {
					worldtest.Send(w, job{i})
					time.Sleep(100 * time.Millisecond)
				}
				worldtest.Want(t, "open", g.Open(), name == "outage")
				s.set(nil)
				time.Sleep(30 * time.Minute)
				worldtest.Want(t, "done", done.Load(), 101)
				close(end)
				if err := stop(); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
