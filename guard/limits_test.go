package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// fleet is workers in processes of their own that call one service.
type fleet struct {
	t      *testing.T
	store  *storage.Store
	log    *worldtest.Log
	took   time.Duration // of a call
	tries  int           // attempts of a job; 0: the default
	fails  *error        // that each call returns, under mu; nil: none does
	guards []*guard.Guard
	worlds []*worldtest.World
	stop   []func() error

	mu             sync.Mutex
	calls          []time.Time // under mu, as all below
	of             []int       // calls of each process
	running, most  int
	done, returned int // messages, and deliveries beyond the first
}

func newFleet(t *testing.T, workers int, cfg guard.Config) *fleet {
	t.Helper()
	f := &fleet{t: t, store: worldtest.OpenStore(t, worldtest.Virtual), log: worldtest.NewLog(), took: 10 * time.Millisecond}
	cfg.Logger = slog.New(f.log)
	for range workers {
		f.start(cfg)
	}
	t.Cleanup(func() {
		for _, stop := range f.stop {
			_ = stop() // it may have stopped
		}
		time.Sleep(time.Minute) // calls that were under way may have asked for a share again
	})
	return f
}

func (f *fleet) start(cfg guard.Config) {
	n := len(f.of)
	f.of = append(f.of, 0)
	g := guard.New("smtp", cfg)
	w := worldtest.NewBare(f.t, f.store, handlers.Config{}, channel.Command[job]("jobs"))
	handlers.React(w.Registry, "jobs", func(ctx context.Context, j job) error {
		err := g.Do(ctx, func(ctx context.Context) error { f.count(n); return f.call(ctx) })
		f.mu.Lock()
		defer f.mu.Unlock()
		if err == nil {
			f.done++
			f.returned += handlers.Deliveries(ctx) - 1
		}
		return err
	})
	stop := w.Start(worker.Config{Logger: slog.New(f.log), Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 8, MaxAttempts: f.tries, Limiter: g.Limiter}}})
	f.guards, f.worlds, f.stop = append(f.guards, g), append(f.worlds, w), append(f.stop, stop)
}

// count counts a call of a process.
func (f *fleet) count(process int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[process]++
}

func (f *fleet) call(ctx context.Context) error {
	f.mu.Lock()
	f.calls = append(f.calls, time.Now())
	f.running++
	f.most = max(f.most, f.running)
	f.mu.Unlock()
	err := worldtest.Pause(ctx, f.took)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	if err == nil && f.fails != nil {
		return *f.fails
	}
	return err
}

func (f *fleet) send(n int) {
	for n > 0 {
		worldtest.Send(f.worlds[0], make([]job, min(n, 100))...)
		n -= 100
	}
}

// counted returns how many jobs are done, and how many were delivered again.
func (f *fleet) counted() (done, returned int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done, f.returned
}

// atATime returns the most calls at a time since it was asked last.
func (f *fleet) atATime() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := f.most
	f.most = f.running
	return most
}

// mostIn returns the most calls in any window of that length.
func (f *fleet) mostIn(window time.Duration) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return mostOf(f.calls, window)
}

// mostOf is mostIn for calls that it sorts.
func mostOf(calls []time.Time, window time.Duration) (most int) {
	slices.SortFunc(calls, time.Time.Compare)
	first := 0
	for last := range calls {
		for calls[last].Sub(calls[first]) >= window {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// Of two processes one is killed while both work. In no time are there more calls than the limit allows, and hardly a
// message is fetched to be refused.
func TestLaw8TheRateOfAllProcesses(t *testing.T) {
	for name, limit := range map[string]guard.Rate{"a fast rate": guard.PerSecond(20), "a slow rate": guard.PerMinute(60)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFleet(t, 2, guard.Config{Rate: limit})
				f.send(int(600 * limit))
				time.Sleep(2 * time.Minute)
				if err := f.stop[0](); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Minute)
				for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
					if most := f.mostIn(window); float64(most) > float64(limit)*window.Seconds()+0.2*float64(limit)+2 {
						t.Errorf("%d calls in %v", most, window)
					}
				}
				done, returned := f.counted()
				if want := int(240 * limit); done < want*9/10 {
					t.Errorf("%d jobs are done, want %d", done, want)
				}
				if returned > done/20+10 {
					t.Errorf("%d of %d jobs were fetched in vain", returned, done)
				}
				if n := f.log.Count("queue is paused"); n > 0 {
					t.Errorf("%d lines about pauses between two permits:\n%s", n, f.log)
				}
			})
		})
	}
}

// Two processes never make more calls at a time than there are slots, and use them.
func TestLaw8TheSlotsOfAllProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, 2, guard.Config{Slots: 5})
		f.took = time.Second
		f.send(600)
		time.Sleep(time.Minute)
		done, returned := f.counted()
		if most := f.atATime(); most > 5 || done < 5*60*9/10 {
			t.Errorf("%d calls at a time, %d jobs done in a minute", most, done)
		}
		if returned > 20 {
			t.Errorf("%d of %d jobs were fetched in vain", returned, done)
		}
		for _, g := range f.guards {
			if err := g.Set(guard.Limits{Slots: 2}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second) // some calls go on
		f.atATime()
		time.Sleep(30 * time.Second)
		if most := f.atATime(); most > 2 {
			t.Errorf("%d calls at a time after the limit was lowered to 2", most)
		}
	})
}

// Numbers change while a guard works, all or none of them.
func TestNumbersThatChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, 1, guard.Config{})
		g := f.guards[0]
		in := func(d time.Duration) int {
			before, _ := f.counted()
			time.Sleep(d)
			after, _ := f.counted()
			return after - before
		}
		f.send(2000)
		if n := in(time.Second); n < 300 {
			t.Errorf("%d calls a second without a limit", n)
		}
		if err := g.Set(guard.Limits{Rate: 10, Break: guard.Break{Of: 3, Distinct: 2}}); err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "the rate in force", g.Limits().Rate, 10)
		time.Sleep(2 * time.Second)
		if n := in(10 * time.Second); n < 90 || n > 103 {
			t.Errorf("%d calls in 10 seconds, limit 100", n)
		}
		if err := g.Set(guard.Limits{Rate: -1, Break: guard.Break{Of: -1}}); err == nil {
			t.Error("numbers that are no good are in force")
		}
		worldtest.Want(t, "the numbers in force", g.Limits().Break.Of, 3)
		if err := g.Set(guard.Limits{}); err != nil {
			t.Fatal(err)
		}
		if n := in(time.Second); n < 300 {
			t.Errorf("%d calls a second without a limit again", n)
		}
		worldtest.Want(t, "the numbers in force", g.Limits().Break, guard.Break{Rate: 0.5, Of: 20, Distinct: 5, Window: 10 * time.Second})
		early := quiet()
		if err := early.Set(guard.Limits{Break: guard.Break{Of: 3, Distinct: 2}}); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			_ = early.Do(handling(t, id(n), 1), ends(errDown))
		}
		wantOpen(t, early, true)
	})
}

// Without a store the limits are this process's own. A call that is refused says so.
func TestLimitsWithoutAStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := guard.New("crm", guard.Config{Rate: 10, Slots: 1, Logger: quietLogger()})
		calls := 0
		for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
			switch err := g.Do(t.Context(), func(context.Context) error { calls++; return nil }); {
			case err == nil, errors.Is(err, guard.ErrLimit):
			default:
				t.Fatal(err)
			}
		}
		if calls < 90 || calls > 101 {
			t.Errorf("%d calls in 10 seconds, limit 100", calls)
		}
		err := g.Do(t.Context(), func(context.Context) error {
			err := g.Do(handling(t, id(1), 1), ends(nil))
			worldtest.WantErr(t, err, guard.ErrLimit)
			wantAction(t, "a call beyond the slots", err, verdict.HandBack)
			return nil
		})
		worldtest.WantErr(t, err, nil)
		for _, cfg := range []guard.Config{{Rate: 0.1}, {Rate: -1}, {Slots: -1}} {
			if guard.New("crm", cfg).Err() == nil {
				t.Errorf("no fault: %+v", cfg)
			}
		}
	})
}

// A worker that has nothing to do leaves the others its part, and asks the store for no more than without limits.
func TestLaw5IdleLimitsCostNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		requests := func(cfg guard.Config) int {
			var calls storagetest.Calls
			f := &fleet{t: t, store: storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook), log: worldtest.NewLog()}
			cfg.Logger = slog.New(f.log)
			f.start(cfg)
			f.send(100)
			time.Sleep(2 * time.Minute)
			before := calls.Count()
			time.Sleep(time.Hour)
			if done, _ := f.counted(); done != 100 {
				t.Errorf("%d jobs are done", done)
			}
			n := calls.Count() - before
			if err := f.stop[0](); err != nil {
				t.Error(err)
			}
			return n
		}
		limited, plain := requests(guard.Config{Rate: 1000, Slots: 100}), requests(guard.Config{})
		if d := limited - plain; d < -plain/10 || d > plain/10 { // looks are spread by chance
			t.Errorf("%d requests in an hour with limits, %d without", limited, plain)
		}
	})
}

// A handler that has waited for a permit waits for the rest of 250 milliseconds at most before it repeats its call.
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
		g := once(guard.New("smtp", guard.Config{Slots: 1000, Logger: quietLogger()}))
		limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s, Queue: "jobs", Concurrency: 2, MaxInHand: 64})
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
		if l, _ := limiter.Now(); l != (worker.Limits{}) {
			t.Errorf("got limits %+v, want none", l)
		}
		var calls sync.WaitGroup
		for i := range 8 { // more at a time than the queue was said to have
			calls.Go(func() { _ = g.Do(handling(t, id(500+i), 1), one) })
		}
		synctest.Wait()
		if l, _ := limiter.Now(); l.MaxInHand == 0 {
			t.Errorf("a call found no slot, and the limits are %+v", l)
		}
		calls.Wait()
		worldtest.WantErr(t, limiter.Leave(t.Context()), nil)
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
						stops[i] = w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}})
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
