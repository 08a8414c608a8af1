package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// outage lets three workers on a store work while their service is away for six minutes, and returns how many calls
// were made once the breakers were open, and how many of them at a time.
func outage(t *testing.T, f *fleet, down *error) (calls, most int) {
	t.Helper()
	trickle := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
			f.send(3)
		}
	}
	trickle(10 * time.Second)
	f.mu.Lock()
	*down = errDown
	f.mu.Unlock()
	trickle(60 * time.Second)
	f.mu.Lock()
	before := len(f.calls)
	f.most = f.running
	f.mu.Unlock()
	trickle(5 * time.Minute)
	f.mu.Lock()
	defer f.mu.Unlock()
	calls, most = len(f.calls)-before, f.most
	*down = nil
	return calls, most
}

// While a service is away, one process of three probes at a time, as seldom as a single one would. When it is back, all
// begin.
func TestLaw1OneProbeInTheFleet(t *testing.T) {
	parttest.InTurn(t)
	for name, limit := range map[string]func(*storage.Store) *storage.Store{
		"with rings":    func(s *storage.Store) *storage.Store { return s },
		"without rings": storagetest.Plain,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var down error
				f := &fleet{t: t, store: limit(worldtest.OpenStore(t, worldtest.Virtual)), log: worldtest.NewLog(), took: 300 * time.Millisecond, fails: &down}
				for range 3 {
					f.start(guard.Config{Logger: slog.New(f.log)})
				}
				calls, most := outage(t, f, &down)
				if calls < 5 || calls > 16 || most > 1 {
					t.Errorf("%d calls while the service was away, %d at a time; want 5 to 16, one at a time", calls, most)
				}
				time.Sleep(2 * time.Minute)
				if done, _ := f.counted(); done != 1110 {
					t.Errorf("%d jobs are done two minutes later, want 1110", done)
				}
				if n := len(f.worlds[0].Poisoned("jobs")); n > 0 {
					t.Errorf("%d poisoned jobs", n)
				}
				for i, stop := range f.stop {
					if err := stop(); err != nil {
						t.Errorf("worker %d: %v", i, err)
					}
				}
			})
		})
	}
}

// Where the store of the record fails, each process has a breaker of its own.
func TestLaw6WithoutTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		link := storagetest.NewLink(worldtest.OpenStore(t, worldtest.Virtual))
		link.Cut()
		g := once(guard.New("smtp", guard.Config{Logger: quietLogger(), Store: link.Store}))
		trip(t, g)
		probes := 0
		for begin := time.Now(); time.Since(begin) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
			_ = g.Do(handling(t, id(probes), 1), func(context.Context) error { probes++; return errDown })
		}
		if probes < 8 || probes > 20 {
			t.Errorf("%d probes in five minutes, want 8 to 20", probes)
		}
		for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(100 * time.Millisecond) {
			_ = g.Do(handling(t, id(probes), 1), ends(nil))
		}
		wantOpen(t, g, false)
		worldtest.WantErr(t, g.Do(handling(t, id(1), 1), ends(nil)), nil)
		time.Sleep(time.Minute)
	})
}

// A closed breaker asks the store once, when its worker starts, whatever its calls do.
func TestLaw5AClosedBreakerAsksOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls storagetest.Calls
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook)
		g := quiet()
		limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for n := range 1000 {
			err := error(nil)
			if n%20 == 0 {
				err = errDown
			}
			_ = g.Do(handling(t, id(n), 1), ends(err))
			time.Sleep(time.Second)
		}
		worldtest.Want(t, "requests", calls.Count("get blob", "put blob"), 1)
		if err := limiter.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// After an outage no call comes any more. The breakers, which are open no more but still in the ramp, ask nothing of
// the store: that of the process that has probed, and those of the others.
func TestLaw5ARampWithoutCallsAsksNothing(t *testing.T) {
	for name, limit := range map[string]func(*storage.Store) *storage.Store{
		"with rings":    func(s *storage.Store) *storage.Store { return s },
		"without rings": storagetest.Plain,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls storagetest.Calls
				s := storagetest.Intercept(limit(worldtest.OpenStore(t, worldtest.Virtual)), calls.Hook)
				a, b := join(t, s), join(t, s)
				alone := join(t, storagetest.Intercept(limit(worldtest.OpenStore(t, worldtest.Virtual)), calls.Hook))
				for _, m := range []member{a, b, alone} {
					trip(t, m.Guard)
				}
				time.Sleep(10 * time.Second)
				for _, m := range []member{a, alone} {
					untilDue(t, m.Guard)
					worldtest.WantErr(t, m.Do(handling(t, id(1), 1), ends(nil)), nil)
				}
				time.Sleep(30 * time.Second)
				for _, m := range []member{a, b, alone} {
					worldtest.Want(t, "calls at a time in the ramp", limits(t, m.Guard), worker.Limits{Concurrency: 2, MaxInHand: 2})
				}
				before := calls.Count()
				time.Sleep(time.Hour)
				worldtest.Want(t, "requests in an hour", calls.Count()-before, 0)
				_ = b.Do(handling(t, id(2), 1), ends(errDown))
				_ = b.Do(handling(t, id(3), 1), ends(errDown))
				time.Sleep(10 * time.Second)
				if !a.Open() && name == "with rings" || !b.Open() {
					t.Errorf("open after calls failed in the ramp: %v, %v", a.Open(), b.Open())
				}
				for _, m := range []member{a, b, alone} {
					m.leave(t)
				}
			})
		})
	}
}

// A process that starts while the others have agreed that a service is away makes no call.
func TestAProcessThatStartsInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		open := func() (*guard.Guard, worker.Limiter) {
			g := quiet()
			limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s})
			if err != nil {
				t.Fatal(err)
			}
			return g, limiter
		}
		a, limiterA := open()
		b, limiterB := open()
		trip(t, a)
		trip(t, b)
		time.Sleep(500 * time.Millisecond)
		c, limiterC := open()
		time.Sleep(100 * time.Millisecond)
		err := c.Do(handling(t, id(1), 1), func(context.Context) error { t.Error("a call was made"); return nil })
		if !errors.Is(err, guard.ErrOpen) {
			t.Errorf("got %v, want ErrOpen", err)
		}
		untilDue(t, c) // its call is the probe of all
		worldtest.WantErr(t, c.Do(handling(t, id(2), 1), ends(nil)), nil)
		time.Sleep(100 * time.Millisecond)
		for _, g := range []*guard.Guard{a, b, c} {
			worldtest.Want(t, "calls at a time after the probe", limits(t, g), worker.Limits{Concurrency: 2, MaxInHand: 2})
		}
		for _, limiter := range []worker.Limiter{limiterA, limiterB, limiterC} {
			if err := limiter.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A process that starts after probes have failed tells of the outage: when it begins for this process, and how long it
// took.
func TestAProcessThatStartsLateInAnOutageTellsOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, log := worldtest.OpenStore(t, worldtest.Virtual), worldtest.NewLog()
		open := func(log slog.Handler) (*guard.Guard, func()) {
			g := once(guard.New("smtp", guard.Config{Logger: slog.New(log)}))
			limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s})
			if err != nil {
				t.Fatal(err)
			}
			return g, func() {
				if err := limiter.Leave(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		first, leave := open(slog.DiscardHandler)
		defer leave()
		trip(t, first)
		time.Sleep(3 * time.Second)
		_ = first.Do(handling(t, id(1), 1), ends(errDown)) // the probe
		time.Sleep(100 * time.Millisecond)
		late, leave := open(log)
		defer leave()
		time.Sleep(100 * time.Millisecond)
		if !late.Open() {
			t.Fatal("the breaker isn't open for all")
		}
		for late.Open() {
			_ = late.Do(handling(t, id(2), 1), ends(nil))
			time.Sleep(time.Second)
		}
		worldtest.Want(t, "lines when it begins", log.Count("a service fails or asks to wait; its calls pause"), 1)
		worldtest.Want(t, "lines when it ends", log.Count("a service answers again; its calls begin slowly", "after="), 1)
		worldtest.Want(t, "lines with the time since the year 1", log.Count("after=2562047h"), 0)
	})
}

// A worker that starts while the last one leaves has its guard act with the others.
func TestAWorkerThatStartsWhileTheLastOneLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var leaving func()
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if f := leaving; f != nil && op.Name == "put blob" {
				leaving = nil
				f()
			}
			return do()
		})
		g := once(guard.New("smtp", guard.Config{Logger: quietLogger(), Rate: guard.PerSecond(1000)}))
		open := func() worker.Limiter {
			limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s})
			if err != nil {
				t.Fatal(err)
			}
			return limiter
		}
		first := open()
		join := func() {
			for g.Do(handling(t, id(1), 1), ends(nil)) != nil {
				time.Sleep(time.Second)
			}
			time.Sleep(time.Second) // the bucket fills
		}
		join()
		var second worker.Limiter
		leaving = func() { second = open() }
		if err := first.Leave(t.Context()); err != nil || second == nil {
			t.Fatalf("%v; the second worker has the limiter %v", err, second)
		}
		join()
		for i := range 20 {
			_ = g.Do(handling(t, id(i), 1), ends(errDown))
		}
		time.Sleep(100 * time.Millisecond)
		if _, err := s.Blobs("guards").Get(t.Context(), "smtp", ""); err != nil || !g.Open() {
			t.Errorf("open: %v; want its report in the store: %v", g.Open(), err)
		}
		if err := second.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A worker that opens the limiters of several queues at the same time listens once, and not any more when all have
// left.
func TestLaw7TurnsThatOpenTogetherListenOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "subscribe" {
				_ = worldtest.Pause(ctx, time.Second)
			}
			return do()
		})
		g := quiet()
		limiters := make([]worker.Limiter, 3)
		var all sync.WaitGroup
		for i := range limiters {
			all.Go(func() {
				limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s})
				if err != nil {
					t.Error(err)
				}
				limiters[i] = limiter
			})
		}
		all.Wait()
		heard := func() int {
			t.Helper()
			n, err := s.Publish(t.Context(), "guards", []byte("smtp"), false)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		worldtest.Want(t, "listeners", heard(), 1)
		for _, limiter := range limiters {
			worldtest.WantErr(t, limiter.Leave(t.Context()), nil)
		}
		worldtest.Want(t, "listeners when all have left", heard(), 0)
	})
}
