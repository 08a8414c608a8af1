package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// gate lets handlers hang until it is opened.
type gate struct {
	opened chan struct{}
	open   func()
}

func newGate(t *testing.T) *gate {
	opened := make(chan struct{})
	g := &gate{opened: opened, open: sync.OnceFunc(func() { close(opened) })}
	t.Cleanup(g.open)
	return g
}

// hang is where handlers hang.
func (g *gate) hang() { <-g.opened }

// withTimeout makes the lab's registry again with a time limit.
func (l *lab) withTimeout(d time.Duration, handle func(ctx context.Context, j job) error) {
	l.Registry = handlers.NewRegistry(l.Channels, handlers.Config{Logger: slog.New(slog.DiscardHandler), Timeout: d})
	handlers.React(l.Registry, "jobs", handle)
}

func gaugeOf(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// Reactions that ignore their context hold up no other message. They are failed attempts, and poison after the third.
// When they end after all, that changes nothing.
func TestHangingReactions(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		g := newGate(t)
		var mu sync.Mutex
		fine, late := 0, 0
		l := newLab(t, s, nil)
		jobs := worldtest.SenderOf[job](t, l.Channels)
		l.withTimeout(time.Second, func(ctx context.Context, j job) error {
			if strings.HasPrefix(j.Name, "hang") {
				g.hang()
				mu.Lock()
				late++
				mu.Unlock()
				if j.Name == "hang and panic" {
					panic("late")
				}
				return jobs.Send(context.WithoutCancel(ctx), job{ID: "sent-late", Name: "fine"})
			}
			mu.Lock()
			fine++
			mu.Unlock()
			return nil
		})
		reg, log := prometheus.NewRegistry(), worldtest.NewLog()
		w, err := worker.New(l.Registry, worker.Config{Concurrency: 10, Metrics: reg, Logger: slog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		l.sendJobs(t, job{ID: "hang-1", Name: "hang"}, job{ID: "hang-2", Name: "hang and panic"})
		for range 8 {
			l.sendJobs(t, job{Name: "fine"})
		}
		time.Sleep(time.Minute)
		mu.Lock()
		worldtest.Want(t, "handled", fine, 8)
		mu.Unlock()
		worldtest.Want(t, "left", int(stats(t, s, "jobs").InFlight), 0)
		for _, p := range l.Poisoned("jobs") {
			if p.Reason != handlers.ReasonHangs || p.Attempts != 3 || !strings.Contains(p.Error, "hangs") {
				t.Errorf("got reason %q after %d attempts, error %q; want that it hangs, after 3", p.Reason, p.Attempts, p.Error)
			}
		}
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 2)
		worldtest.Want(t, "given up", int(gaugeOf(t, reg, "millrace_abandoned")), 6)
		worldtest.Want(t, "lines", log.Count("handler failed"), 6)
		worldtest.Want(t, "stacks", log.Count("worker_test.(*gate).hang"), 2)
		worldtest.Want(t, "stacks of the framework", log.Count("usercode.callUser"), 0)
		if err := w.Healthy(); err != nil {
			t.Errorf("got %v with 6 of 10; want a healthy worker", err)
		}

		g.open()
		time.Sleep(time.Second)
		mu.Lock()
		worldtest.Want(t, "ended late", late, 6)
		mu.Unlock()
		l.empty(t, time.Second)
		worldtest.Want(t, "given up, after the end", int(gaugeOf(t, reg, "millrace_abandoned")), 0)
		worldtest.Want(t, "poisoned, after the end", len(l.Poisoned("jobs")), 2)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

// When as many handlers hang as may run at a time, the worker says so, and takes no more messages until one ends.
func TestTooManyHang(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		g := newGate(t)
		l := newLab(t, s, nil)
		l.withTimeout(time.Second, func(_ context.Context, j job) error {
			if j.Name == "hang" {
				g.hang()
			}
			return nil
		})
		log := worldtest.NewLog()
		w, err := worker.New(l.Registry, worker.Config{Concurrency: 2, Logger: slog.New(log), RetryDelay: func(int, string) time.Duration { return time.Hour }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		l.sendJobs(t, job{Name: "hang"}, job{Name: "hang"})
		time.Sleep(5 * time.Second)
		if err := w.Healthy(); err != nil {
			t.Errorf("got %v before they were given up", err)
		}
		time.Sleep(10 * time.Second)
		if err := w.Healthy(); err == nil || !strings.Contains(err.Error(), "queue jobs") {
			t.Errorf("got %v; want an error that names the queue", err)
		}
		worldtest.Want(t, "lines", log.Count("too many handlers hang"), 1)
		l.sendJobs(t, job{Name: "fine"})
		time.Sleep(time.Minute)
		if st := stats(t, s, "jobs"); st.Ready != 1 {
			t.Errorf("got %+v; want the message to wait for another worker", st)
		}
		g.open()
		time.Sleep(2 * time.Minute)
		if err := w.Healthy(); err != nil {
			t.Errorf("got %v after they have ended", err)
		}
		if st := stats(t, s, "jobs"); st.Ready+st.InFlight != 0 || st.Delayed != 2 {
			t.Errorf("got %+v; want all done but the two that were given up", st)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

// A decision that hangs fails alone: the others of its document are decided, and later ones too. Two folds of the
// document don't race: the result of the fold that was given up is dropped.
func TestHangingDecision(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		g := newGate(t)
		w := newFused(t, s)
		w.Registry = handlers.NewRegistry(w.Channels, handlers.Config{Logger: slog.New(slog.DiscardHandler), Timeout: time.Second})
		handlers.Decide(w.Registry, w.Accounts, Add.Subject,
			func(a Account, c Add) (Account, []channel.Message, error) {
				if c.Note == "hang" {
					g.hang()
				}
				a.Balance += c.Amount
				return a, nil, nil
			})
		stop := w.Start(worker.Config{Concurrency: 4})
		worldtest.Send(w.World, Add{To: "a", Amount: 1}, Add{Key: "hangs", To: "a", Amount: 1000, Note: "hang"}, Add{To: "a", Amount: 1})
		for range 10 {
			time.Sleep(6 * time.Second)
			worldtest.Send(w.World, Add{To: "a", Amount: 1})
		}
		w.empty(t, time.Second)
		sum := func() int {
			d, err := w.Accounts.Get(t.Context(), "a", "")
			if err != nil {
				t.Fatal(err)
			}
			return d.Value.Balance
		}
		worldtest.Want(t, "sum", sum(), 12)
		all := w.Poisoned("accounts")
		if len(all) != 1 || all[0].ID != "hangs" || all[0].Reason != handlers.ReasonHangs {
			t.Errorf("poisoned: got %+v, want the one that hangs", all)
		}
		g.open()
		time.Sleep(time.Minute) // time to fold it again, if its first write loses a race
		worldtest.Want(t, "sum, after the end", sum(), 12)
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

// A key function that hangs is given up like a handler. It delays the other messages, and holds up no stop.
func TestHangingKeyFunction(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		g := newGate(t)
		w := newFused(t, s)
		log, reg := worldtest.NewLog(), prometheus.NewRegistry()
		w.Registry = handlers.NewRegistry(w.Channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
		handlers.Decide(w.Registry, w.Accounts, func(c Add) string {
			if c.Note == "hang" {
				g.hang()
			}
			return c.To
		}, func(a Account, c Add) (Account, []channel.Message, error) {
			a.Balance += c.Amount
			return a, nil, nil
		})
		worldtest.Send(w.World, Add{To: "a", Amount: 1}, Add{Key: "hangs", To: "a", Amount: 1000, Note: "hang"}, Add{To: "a", Amount: 1}, Add{To: "b", Amount: 1})
		stop := w.Start(worker.Config{Concurrency: 4, MaxDeliveries: 2, Metrics: reg, Logger: slog.New(log)})
		time.Sleep(5 * time.Second)
		worldtest.Send(w.World, Add{To: "a", Amount: 1})
		time.Sleep(2 * time.Minute)
		w.empty(t, time.Second)
		for account, want := range map[string]int{"a": 3, "b": 1} {
			d, err := w.Accounts.Get(t.Context(), account, "")
			if err != nil {
				t.Fatal(err)
			}
			worldtest.Want(t, "sum of "+account, d.Value.Balance, want)
		}
		all := w.Poisoned("accounts")
		if len(all) != 1 || all[0].ID != "hangs" || all[0].Reason != handlers.ReasonHangs || !strings.Contains(all[0].Error, "finds its key hangs") {
			t.Errorf("poisoned: got %+v, want the one whose key function hangs", all)
		}
		worldtest.Want(t, "stacks", log.Count("worker_test.(*gate).hang"), 1)
		worldtest.Want(t, "given up", int(gaugeOf(t, reg, "millrace_abandoned")), 3)

		worldtest.Send(w.World, Add{Key: "hangs-again", To: "a", Note: "hang"})
		time.Sleep(time.Second)
		began := time.Now()
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("stopping took %v, want at most 30 s", took)
		}
		g.open()
	})
}

// A message's hangs are counted in the message. So a worker that was started again knows the earlier ones.
func TestHangsAreCountedAcrossWorkers(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		g := newGate(t)
		l := newLab(t, s, nil)
		l.withTimeout(time.Second, func(context.Context, job) error { g.hang(); return nil })
		l.sendJobs(t, job{ID: "a"})
		for range 3 {
			stop := l.Start(worker.Config{Concurrency: 1, MaxAttempts: 10})
			time.Sleep(15 * time.Second)
			if err := stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
		if p := l.onePoisoned(t); p.Reason != handlers.ReasonHangs || p.Attempts != 3 || p.ID != "a" {
			t.Errorf("got %+v", p)
		}
		g.open()
		synctest.Wait()
	})
}

// A message that was retried from the poison queue may hang three times again.
func TestHangsBeginAtZeroAfterThePoisonQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGate(t)
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nil)
		l.withTimeout(time.Second, func(context.Context, job) error { g.hang(); return nil })
		l.Start(worker.Config{})
		l.sendJobs(t, job{ID: "a"})
		for range 2 {
			l.empty(t, time.Second)
			p := l.onePoisoned(t)
			if p.Reason != handlers.ReasonHangs || p.Attempts != 3 {
				t.Errorf("got %+v", p)
			}
			if err := l.poison.Retry(t.Context(), p.Key); err != nil {
				t.Fatal(err)
			}
		}
		g.open()
		l.empty(t, time.Second)
	})
}

// A message that claims more hangs than failed attempts is not believed.
func TestHangsThatCantBe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := 0
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(context.Context, job) error {
			if n++; n == 1 {
				return errors.New("no")
			}
			return nil
		})
		l.sendRaw(t, `{"specversion":"1.0","id":"a","source":"/x","type":"test.job.v1","hangs":5,"data":{"name":"fine"}}`)
		l.Start(worker.Config{})
		l.empty(t, time.Second)
		worldtest.Want(t, "calls", len(l.called()), 2)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
	})
}
