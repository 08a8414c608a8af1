package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// dial is a limiter as a user writes it: limits that somebody sets while the worker runs.
type dial struct {
	mu      sync.Mutex
	limits  worker.Limits
	changed chan struct{}
	left    int // calls of Leave
}

func newDial(limits worker.Limits) *dial { return &dial{limits: limits, changed: make(chan struct{})} }

func (d *dial) Now() (worker.Limits, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limits, d.changed
}

func (d *dial) Leave(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left++
	return nil
}

func (d *dial) set(limits worker.Limits) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limits = limits
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *dial) open(context.Context, worker.Consumer) (worker.Limiter, error) { return d, nil }

// jobsLimiter gives the jobs a limiter.
func jobsLimiter(open worker.OpenLimiter) map[string]worker.QueueConfig {
	return map[string]worker.QueueConfig{"jobs": {Limiter: open}}
}

// runs counts the handlers that run. Each runs until done has an element for it, or until its context ends.
type runs struct {
	running, cut atomic.Int64
	done         chan struct{}
}

func (h *runs) handle(ctx context.Context, _ job) error {
	h.running.Add(1)
	defer h.running.Add(-1)
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		h.cut.Add(1)
		return ctx.Err()
	}
}

// A queue that is paused hands back the messages that wait, finishes those that run, and takes none. Nothing is spent.
func TestPause(t *testing.T) {
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		h := &runs{done: make(chan struct{}, 100)}
		l, pause := newLab(t, s, h.handle), newDial(worker.Limits{Pause: true})
		cfg := worker.QueueConfig{Concurrency: 2, MaxInHand: 10, Limiter: pause.open}
		l.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": cfg}})
		l.sendJobs(t, make([]job, 20)...)
		time.Sleep(time.Minute)
		worldtest.Want(t, "running while paused", int(h.running.Load()), 0)
		pause.set(worker.Limits{})
		time.Sleep(5 * time.Second)
		h.done <- struct{}{} // so that more are taken in hand
		time.Sleep(5 * time.Second)
		worldtest.Want(t, "running", int(h.running.Load()), 2)
		pause.set(worker.Limits{Pause: true})
		time.Sleep(5 * time.Second)
		if st := stats(t, s, "jobs"); st.InFlight != 2 || st.Ready != 17 {
			t.Errorf("paused: got %+v, want 2 that run and 17 that wait for other workers", st)
		}
		h.done <- struct{}{}
		h.done <- struct{}{}
		time.Sleep(10 * time.Minute)
		if st := stats(t, s, "jobs"); st.InFlight != 0 || st.Ready != 17 {
			t.Errorf("still paused: got %+v", st)
		}
		close(h.done)
		pause.set(worker.Limits{})
		l.empty(t, time.Second)
		worldtest.Want(t, "calls", len(l.called()), 20)
		worldtest.Want(t, "cut off", int(h.cut.Load()), 0)
		for _, c := range l.called() {
			worldtest.Want(t, "attempts", c.envelope.Attempts, 0)
		}
	})
}

// However fast a queue is paused and consumed, the log ends with the state that lasts, and has one line a second. It
// names the limits in force, never a zero that limits nothing.
func TestLastLineAboutAPauseIsTrue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log, pause := worldtest.NewLog(), newDial(worker.Limits{})
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nothing)
		cfg := worker.QueueConfig{Concurrency: 2, MaxInHand: 10, PollInterval: time.Second, Limiter: pause.open}
		l.Start(worker.Config{Logger: slog.New(log), Queues: map[string]worker.QueueConfig{"jobs": cfg}})
		want := func(when string, paused, consumed int) {
			t.Helper()
			worldtest.Want(t, when+": lines about pauses", log.Count("INFO queue is paused", "pause=true concurrency=2 max_in_hand=10 poll_interval=1s"), paused)
			worldtest.Want(t, when+": lines about no pause", log.Count("INFO queue is consumed", "pause=false", "max_in_hand=10 poll_interval=1s"), consumed)
		}
		time.Sleep(2 * time.Second)
		want("a limiter that allows it from the start", 0, 0)
		for range 5 {
			pause.set(worker.Limits{Pause: true})
			time.Sleep(20 * time.Millisecond)
			pause.set(worker.Limits{Concurrency: 7})
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		want("after five short pauses", 1, 1)
		pause.set(worker.Limits{Pause: true})
		time.Sleep(time.Minute)
		want("in a pause", 2, 1)
	})
}

// A limiter that hangs is reported while the worker runs, not after it has stopped.
func TestNoLineAboutATurnAfterTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log, hang := worldtest.NewLog(), make(chan struct{})
		defer close(hang)
		r := &rogue{leave: func() error { return nil }, now: func(int64) (worker.Limits, <-chan struct{}) {
			<-hang
			return worker.Limits{}, nil
		}}
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nothing)
		stop := l.Start(worker.Config{Logger: slog.New(log), Queues: jobsLimiter(func(context.Context, worker.Consumer) (worker.Limiter, error) { return r, nil })})
		time.Sleep(5 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		worldtest.Want(t, "lines", log.Count("doesn't answer"), 0)
	})
}

// Concurrency changes while the worker runs, up and down. When it falls, no running handler is cut off.
func TestLiveConcurrency(t *testing.T) {
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		h := &runs{done: make(chan struct{})}
		l, limit := newLab(t, s, h.handle), newDial(worker.Limits{Concurrency: 1})
		l.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 4, Limiter: limit.open}}})
		l.sendJobs(t, make([]job, 200)...)
		finish := func(n int) {
			for range n {
				h.done <- struct{}{}
			}
			time.Sleep(time.Minute)
		}
		for _, c := range []struct{ limit, want int }{{1, 1}, {6, 6}, {2, 6}, {0, 6}, {3, 6}, {50, 50}} {
			limit.set(worker.Limits{Concurrency: c.limit})
			time.Sleep(time.Minute)
			worldtest.Want(t, fmt.Sprintf("running after the limit became %d", c.limit), int(h.running.Load()), c.want)
		}
		limit.set(worker.Limits{Concurrency: 2})
		finish(48)
		worldtest.Want(t, "running when 48 of 50 have ended", int(h.running.Load()), 2)
		finish(5)
		worldtest.Want(t, "running when 5 more have ended", int(h.running.Load()), 2)
		limit.set(worker.Limits{})
		time.Sleep(time.Minute)
		worldtest.Want(t, "running within the configuration", int(h.running.Load()), 4)
		close(h.done)
		l.empty(t, time.Second)
		worldtest.Want(t, "calls", len(l.called()), 200)
		worldtest.Want(t, "cut off", int(h.cut.Load()), 0)
	})
}

// MaxInHand changes while the worker runs.
func TestLiveMaxInHand(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		l, limit := newLab(t, s, func(context.Context, job) error { time.Sleep(10 * time.Millisecond); return nil }), newDial(worker.Limits{})
		l.Start(worker.Config{Concurrency: 2, Queues: jobsLimiter(limit.open)})
		most := func(d time.Duration) (n int64) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(7 * time.Millisecond) { // handlers take 10
				n = max(n, stats(t, s, "jobs").InFlight)
			}
			return n
		}
		l.sendJobs(t, make([]job, 2000)...)
		if n := most(2 * time.Second); n <= 8 {
			t.Errorf("in hand at most: got %d, want more than 8", n)
		}
		limit.set(worker.Limits{MaxInHand: 5})
		time.Sleep(2 * time.Second)
		if n := most(time.Second); n > 5 {
			t.Errorf("in hand at most, with a lower limit: got %d, want 5", n)
		}
		limit.set(worker.Limits{MaxInHand: 1}) // less than runs at once
		time.Sleep(time.Second)
		if n := most(time.Second); n != 2 {
			t.Errorf("in hand at most, with the lowest limit: got %d, want 2", n)
		}
		limit.set(worker.Limits{})
		l.empty(t, time.Second)
	})
}

// PollInterval changes while the worker runs. A shorter one counts at once.
func TestLivePollInterval(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls storagetest.Calls
		l := newLab(t, storagetest.Intercept(patient(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), time.Hour), calls.Hook), nothing)
		poll := newDial(worker.Limits{})
		l.Start(worker.Config{Queues: jobsLimiter(poll.open)})
		time.Sleep(5 * time.Hour)
		poll.set(worker.Limits{PollInterval: time.Second})
		synctest.Wait()
		before := calls.Count("receive")
		time.Sleep(time.Minute)
		if n := calls.Count("receive") - before; n < 55 || n > 90 {
			t.Errorf("looks in a minute, each second: got %d", n)
		}
		poll.set(worker.Limits{})
		time.Sleep(5 * time.Hour)
		before = calls.Count("receive")
		time.Sleep(10 * time.Hour)
		if n := calls.Count("receive") - before; n > 14 {
			t.Errorf("looks in ten hours, each hour: got %d", n)
		}
	})
}

// Of several limiters all must allow, and the least limits hold that they name.
func TestLimitersTogether(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := &runs{done: make(chan struct{})}
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), h.handle)
		a, b, c := newDial(worker.Limits{Pause: true}), newDial(worker.Limits{}), newDial(worker.Limits{})
		stop := l.Start(worker.Config{DrainTimeout: time.Second, Queues: jobsLimiter(worker.Limiters(a.open, worker.Limiters(b.open, c.open)))})
		l.sendJobs(t, make([]job, 100)...)
		for _, step := range []struct {
			a, b, c worker.Limits
			want    int
		}{
			{worker.Limits{Pause: true}, worker.Limits{}, worker.Limits{}, 0},
			{worker.Limits{Pause: true}, worker.Limits{Pause: true}, worker.Limits{}, 0},
			{worker.Limits{}, worker.Limits{Pause: true}, worker.Limits{}, 0},
			{worker.Limits{}, worker.Limits{}, worker.Limits{Pause: true}, 0},
			{worker.Limits{}, worker.Limits{Concurrency: 5}, worker.Limits{Concurrency: 3}, 3},
			{worker.Limits{}, worker.Limits{Concurrency: 5}, worker.Limits{Concurrency: 4}, 4},
			{worker.Limits{}, worker.Limits{Concurrency: 40}, worker.Limits{}, 40},
		} {
			c.set(step.c) // first, so that one of them pauses all the time until all allow
			time.Sleep(time.Second)
			b.set(step.b)
			time.Sleep(time.Second)
			a.set(step.a)
			time.Sleep(time.Minute)
			worldtest.Want(t, fmt.Sprintf("running within %+v", step), int(h.running.Load()), step.want)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for i, d := range []*dial{a, b, c} {
			worldtest.Want(t, fmt.Sprintf("calls of Leave of limiter %d", i), d.left, 1)
		}
	})
}

// rogue is a limiter that may do anything.
type rogue struct {
	now   func(n int64) (worker.Limits, <-chan struct{})
	leave func() error
	calls atomic.Int64
}

func (r *rogue) Now() (worker.Limits, <-chan struct{}) { return r.now(r.calls.Add(1)) }
func (r *rogue) Leave(context.Context) error           { return r.leave() }

// Whatever a limiter does, its last limits stay in force, the messages are handled, and the worker stops in time.
func TestLimiterThatMisbehaves(t *testing.T) {
	for name, misdeed := range map[string]func(t *testing.T) (worker.Limits, <-chan struct{}){
		"panics":                  func(*testing.T) (worker.Limits, <-chan struct{}) { panic("no") },
		"ends its goroutine":      func(*testing.T) (worker.Limits, <-chan struct{}) { runtime.Goexit(); panic("unreachable") },
		"negative concurrency":    func(*testing.T) (worker.Limits, <-chan struct{}) { return worker.Limits{Concurrency: -1}, nil },
		"negative number in hand": func(*testing.T) (worker.Limits, <-chan struct{}) { return worker.Limits{MaxInHand: -1}, nil },
		"polls without a pause":   func(*testing.T) (worker.Limits, <-chan struct{}) { return worker.Limits{PollInterval: 1}, nil },
		"blocks": func(t *testing.T) (worker.Limits, <-chan struct{}) {
			<-t.Context().Done()
			return worker.Limits{}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				log, first := worldtest.NewLog(), make(chan struct{})
				r := &rogue{leave: func() error { panic("no leave") }, now: func(n int64) (worker.Limits, <-chan struct{}) {
					if n == 1 {
						return worker.Limits{Concurrency: 3}, first
					}
					return misdeed(t)
				}}
				h := &runs{done: make(chan struct{})}
				l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), h.handle)
				stop := l.Start(worker.Config{DrainTimeout: time.Second, Logger: slog.New(log), Queues: jobsLimiter(func(context.Context, worker.Consumer) (worker.Limiter, error) { return r, nil })})
				time.Sleep(time.Second)
				close(first)
				time.Sleep(time.Minute)
				l.sendJobs(t, make([]job, 10)...)
				time.Sleep(time.Minute)
				worldtest.Want(t, "running within the last limits", int(h.running.Load()), 3)
				if n := log.Count("ERROR the limiter of a queue ", "its last limits stay in force", "queue=jobs"); n != 1 {
					t.Errorf("the log speaks of it %d times, want once:\n%s", n, log)
				}
				began := time.Now()
				if err := stop(); err != nil || time.Since(began) > 2*time.Second {
					t.Errorf("stopped after %v with %v", time.Since(began), err)
				}
				worldtest.Want(t, "lines about Leave", log.Count("WARN the limiter of a queue could not be left in order"), 1)
			})
		})
	}
}

// A limiter that says always that it changes costs little.
func TestLimiterThatAlwaysChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		closed := make(chan struct{})
		close(closed)
		r := &rogue{leave: func() error { return nil }, now: func(n int64) (worker.Limits, <-chan struct{}) {
			return worker.Limits{Concurrency: 1 + int(n%3)}, closed
		}}
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nothing)
		l.Start(worker.Config{Queues: jobsLimiter(func(context.Context, worker.Consumer) (worker.Limiter, error) { return r, nil })})
		time.Sleep(10 * time.Second)
		if n := r.calls.Load(); n > 1001 {
			t.Errorf("asked %d times in ten seconds", n)
		}
		l.sendJobs(t, make([]job, 100)...)
		l.empty(t, time.Second)
	})
}

// A limiter that never answers, such as a typed nil, is a pause.
func TestLimiterWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		log := worldtest.NewLog()
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nothing)
		stop := l.Start(worker.Config{Logger: slog.New(log), Queues: jobsLimiter(func(context.Context, worker.Consumer) (worker.Limiter, error) {
			return (*dial)(nil), nil
		})})
		l.sendJobs(t, job{})
		time.Sleep(time.Minute)
		worldtest.Want(t, "calls", len(l.called()), 0)
		worldtest.Want(t, "lines", log.Count("ERROR the limiter of a queue fails", "pause=true"), 1)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
