package guard_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// crowded is a service that does so many calls at a time. The others wait in its queue.
type crowded struct {
	mu      sync.Mutex
	rand    *rand.Rand
	workers int
	running int
	queue   []chan bool
	done    int
	took    []time.Duration // with the time in the queue
}

const meanTime = 20 * time.Millisecond

func newCrowded(t *testing.T, workers int) *crowded {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &crowded{rand: rand.New(rand.NewPCG(seed, 0)), workers: workers}
}

func (s *crowded) call(context.Context) error {
	begin := time.Now()
	s.mu.Lock()
	place := make(chan bool)
	s.queue = append(s.queue, place)
	s.serve()
	s.mu.Unlock()
	<-place
	s.mu.Lock()
	took := time.Duration(s.rand.ExpFloat64() * float64(meanTime))
	s.mu.Unlock()
	time.Sleep(took)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.done++
	s.took = append(s.took, time.Since(begin))
	s.serve()
	return nil
}

// serve begins with calls that wait, under the mutex.
func (s *crowded) serve() {
	for s.running < s.workers && len(s.queue) > 0 {
		s.running++
		close(s.queue[0])
		s.queue = s.queue[1:]
	}
}

// counted returns how many calls were done since it was asked last, and the time that one of 100 took longer than.
func (s *crowded) counted() (done int, p99 time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.took)
	if n := len(s.took); n > 0 {
		p99 = s.took[n*99/100]
	}
	done, s.done, s.took = s.done, 0, nil
	return done, p99
}

// push makes so many calls at a time, as far as the guard lets them, until it is stopped.
func push(g *guard.Guard, s *crowded, n int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				_ = g.Do(ctx, s.call)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// limitsFor samples the limit for a while, and returns the samples in their order of size.
func limitsFor(t *testing.T, g *guard.Guard, d time.Duration) (all []int) {
	for range d / (50 * time.Millisecond) {
		time.Sleep(50 * time.Millisecond)
		all = append(all, limits(t, g).MaxInHand)
	}
	slices.Sort(all)
	return all
}

func adaptive(cfg guard.Adaptive) *guard.Guard {
	return guard.New("crm", guard.Config{Adaptive: cfg, Logger: quietLogger()})
}

// A service that has a limited number of calls at a time answers each of them soon, and does hardly less.
func TestAdaptiveKeepsCallsShort(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		measure := func(g *guard.Guard) (done int, p99 time.Duration) {
			s := newCrowded(t, 8)
			defer push(g, s, 64)()
			time.Sleep(10 * time.Second)
			s.counted()
			time.Sleep(40 * time.Second)
			done, p99 = s.counted()
			t.Logf("%d calls a second, 99 of 100 within %v", done/40, p99)
			return done, p99
		}
		all, long := measure(guard.New("crm", guard.Config{Logger: quietLogger()}))
		done, short := measure(adaptive(guard.Adaptive{Most: 64}))
		if done < all*8/10 || short > long*3/4 {
			t.Errorf("%d calls, 99 of 100 within %v; %d within %v without a limit", done, short, all, long)
		}
	})
}

// The limit stays between Least and Most, also when they change while it works. Set turns it off and on again.
func TestLaw12AnAdaptiveLimitHoldsItsBounds(t *testing.T) {
	parttest.InTurn(t)
	inBubble(t, func(t *testing.T) {
		s, g := newCrowded(t, 8), adaptive(guard.Adaptive{Least: 20, Most: 30})
		worldtest.Want(t, "the first limit", limits(t, g).MaxInHand, 20)
		defer push(g, s, 64)()
		for _, bounds := range []guard.Adaptive{{Least: 20, Most: 30}, {Least: 2, Most: 5}, {Least: 40, Most: 40}} {
			worldtest.WantErr(t, g.Set(guard.Limits{Adaptive: bounds}), nil)
			worldtest.Want(t, "the bounds in force", g.Limits().Adaptive, bounds)
			all := limitsFor(t, g, 20*time.Second)
			if all[0] < bounds.Least || all[len(all)-1] > bounds.Most {
				t.Errorf("limits from %d to %d with %+v", all[0], all[len(all)-1], bounds)
			}
		}
		worldtest.WantErr(t, g.Set(guard.Limits{}), nil)
		worldtest.Want(t, "a limit that is off", limits(t, g).MaxInHand, 0)
		worldtest.WantErr(t, g.Set(guard.Limits{Adaptive: guard.Adaptive{Most: 64}}), nil)
		worldtest.Want(t, "the bounds in force", g.Limits().Adaptive, guard.Adaptive{Least: 1, Most: 64})
		time.Sleep(3 * time.Minute)
		if all := limitsFor(t, g, 20*time.Second); all[len(all)/2] < 5 || all[len(all)/2] > 24 {
			t.Errorf("limits from %d to %d after it was off", all[0], all[len(all)-1])
		}
	})
}

// Law 7: a call that ignores the end of its context keeps no place of an adaptive limit.
func TestLaw7AHangKeepsNoPlaceOfAnAdaptiveLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := adaptive(guard.Adaptive{Most: 1})
		w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{Timeout: time.Minute}, channel.Command[job]("jobs"))
		var done atomic.Int64
		handlers.React(w.Registry, "jobs", guard.Around(g, func(_ context.Context, j job) error {
			if j.N == 0 {
				<-time.After(time.Hour)
			}
			done.Add(1)
			return nil
		}))
		stop := w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}})
		all := make([]job, 20)
		for i := range all {
			all[i].N = i
		}
		worldtest.Send(w, all...)
		time.Sleep(10 * time.Minute)
		worldtest.Want(t, "jobs done behind one that hangs", done.Load(), 19)
		time.Sleep(time.Hour)
		if l := limits(t, g); l.MaxInHand != 1 {
			t.Errorf("limits of %+v after the hang", l)
		}
		worldtest.WantErr(t, stop(), nil)
		time.Sleep(time.Minute)
	})
}

// Calls outside of a worker wait for a place of an adaptive limit, also after a worker has stopped.
func TestAdaptiveOutsideOfAWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := adaptive(guard.Adaptive{Most: 1})
		limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: worldtest.OpenStore(t, worldtest.Virtual)})
		if err != nil {
			t.Fatal(err)
		}
		worldtest.WantErr(t, limiter.Leave(t.Context()), nil)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				worldtest.WantErr(t, g.Do(t.Context(), func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil }), nil)
			})
		}
		all.Wait()
	})
}

// A worker that leaves waits for no call that waits for a place of an adaptive limit.
func TestLaw7LeavingAwaitsNoCallOfAnAdaptiveLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := adaptive(guard.Adaptive{Most: 1})
		limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: worldtest.OpenStore(t, worldtest.Virtual)})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		for range 2 {
			go func() {
				ended <- g.Do(t.Context(), func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil })
			}()
		}
		synctest.Wait() // one is under way, the other waits
		began := time.Now()
		worldtest.WantErr(t, limiter.Leave(t.Context()), nil)
		if took := time.Since(began); took > 0 {
			t.Errorf("leaving took %v", took)
		}
		for range 2 {
			worldtest.WantErr(t, <-ended, nil)
		}
	})
}

func TestAdaptiveRefusesBadBounds(t *testing.T) {
	for want, bounds := range map[string]guard.Adaptive{
		"guard: crm: Adaptive.Most is -1; want 1 to 10000, or 0 for no limit\nAdaptive.Least is 0; want 1 to Most, which is -1": {Most: -1},
		"guard: crm: Adaptive.Most is 10001; want 1 to 10000, or 0 for no limit":                                                {Most: 10001},
		"guard: crm: Adaptive.Least is 5; want 1 to Most, which is 4":                                                           {Least: 5, Most: 4},
		"guard: crm: Adaptive.Least is -1; want 1 to Most, which is 4":                                                          {Least: -1, Most: 4},
		"guard: crm: Adaptive.Least is 3 without Most; want Most, too, or neither for no limit":                                 {Least: 3},
	} {
		if err := guard.New("crm", guard.Config{Adaptive: bounds}).Err(); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", bounds, err, want)
		}
		if (guard.Limits{Adaptive: bounds}).Check() == nil {
			t.Errorf("no fault: %+v", bounds)
		}
	}
}

// A call beyond the limit is refused like any other that is beyond one, and counted. The gauge shows the limit.
func TestAdaptiveShowsWhatItRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		g := once(guard.New("crm", guard.Config{Adaptive: guard.Adaptive{Most: 1}, Metrics: r, Logger: quietLogger()}))
		err := g.Do(t.Context(), func(context.Context) error {
			worldtest.WantErr(t, g.Do(t.Context(), ends(nil)), guard.ErrLimit)
			return nil
		})
		worldtest.WantErr(t, err, nil)
		worldtest.WantErr(t, g.Do(t.Context(), ends(nil)), nil)
		for name, want := range map[string]float64{"millrace_guard_adaptive": 1, "millrace_guard_refused_total": 1} {
			all, err := r.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := 0.0
			for _, f := range all {
				for _, m := range f.Metric {
					if f.GetName() == name {
						got += m.GetGauge().GetValue() + m.GetCounter().GetValue()
					}
				}
			}
			worldtest.Want(t, name, got, want)
		}
	})
}

// A worker whose queue has the guard's Limiter uses the service, and hardly fetches a message to be refused.
func TestAdaptiveOfAWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCrowded(t, 8)
		g := adaptive(guard.Adaptive{Most: 64})
		w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, channel.Command[job]("jobs"))
		var done, refused atomic.Int64
		handlers.React(w.Registry, "jobs", func(ctx context.Context, _ job) error {
			err := g.Do(ctx, s.call)
			if err == nil {
				done.Add(1)
			} else {
				refused.Add(1)
			}
			return err
		})
		stop := w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 64, Limiter: g.Limiter}}})
		for range 45 {
			worldtest.Send(w, make([]job, 100)...)
		}
		time.Sleep(5 * time.Second)
		before := done.Load()
		time.Sleep(5 * time.Second)
		all := done.Load()
		if all-before < 5*50*8*6/10 || refused.Load() > all/50 {
			t.Errorf("%d jobs are done of %d, and %d were fetched in vain", all-before, 10*50*8, refused.Load())
		}
		worldtest.WantErr(t, stop(), nil)
		time.Sleep(time.Minute)
	})
}
