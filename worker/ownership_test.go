package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A handler that runs many visibilities long keeps its message; no other worker gets it.
func TestRenewal(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const visibility = 6 * time.Second
		l := newLab(t, s, func(ctx context.Context, _ job) error {
			select {
			case <-time.After(5 * visibility):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		l.Start(worker.Config{Visibility: visibility})
		l.Start(worker.Config{Visibility: visibility})
		l.sendJobs(t, job{ID: "a"}, job{ID: "b"})
		time.Sleep(time.Second)
		for range 56 {
			time.Sleep(time.Second / 2)
			ds, err := s.Queue("jobs").Receive(t.Context(), 10, visibility)
			if err != nil || len(ds) > 0 {
				t.Fatalf("somebody else got %d messages, %v", len(ds), err)
			}
		}
		l.empty(t, time.Second)
		worldtest.Want(t, "calls", len(l.called()), 2)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
	})
}

// A message stays its worker's while it is folded again after a lost race, however long that takes.
func TestRenewalAfterALostRace(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const visibility = 6 * time.Second
		var races, folds atomic.Int64
		w := newWorld(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if (op.Name == "commit" || op.Name == "put blob") && strings.HasPrefix(op.Resource, "blob accounts/") && races.Add(1) == 1 {
				return op.Fail(storage.ErrPrecondition)
			}
			return do()
		}))
		w.decide = func(a Account, c Add) (Account, []channel.Message, error) {
			if folds.Add(1) == 2 {
				time.Sleep(50 * visibility)
			}
			return a.Add(c)
		}
		w.Start(worker.Config{Visibility: visibility})
		w.Start(worker.Config{Visibility: visibility})
		worldtest.Send(w.World, Add{To: "a", Amount: 1})
		w.empty(t, time.Second)
		worldtest.Want(t, "folds", folds.Load(), 2)
		worldtest.Want(t, "balance", w.Balance("a"), 1)
	})
}

// A receive that was answered late leaves less time than usual: the message is renewed at the first look.
func TestRenewalAfterLateReceive(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const visibility = 12 * time.Second
		hooked := storagetest.Intercept(storagetest.Plain(s), func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if op.Name == "receive" && op.Resource == "queue jobs" {
				time.Sleep(visibility * 7 / 10)
			}
			return err
		})
		l := newLab(t, hooked, func(ctx context.Context, _ job) error {
			select {
			case <-time.After(2 * visibility):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		l.sendJobs(t, job{ID: "a"})
		l.Start(worker.Config{Visibility: visibility})
		l.empty(t, time.Second)
		worldtest.Want(t, "calls", len(l.called()), 1)
	})
}

// When renewals fail, the handler's context ends before another worker can have the message. That spends no attempt,
// and another worker handles it.
func TestOwnershipLost(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const visibility = 12 * time.Second
		for _, refusal := range []string{"refused", "hanging", "slow"} {
			hooked := storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
				if op.Name != "extend" {
					return do()
				}
				switch refusal {
				case "hanging":
					<-ctx.Done()
				case "slow": // too late
					select {
					case <-time.After(visibility):
					case <-ctx.Done():
					}
				}
				return op.Fail(storage.ErrUnavailable)
			})
			ended := make(chan time.Duration, 1)
			began := time.Now()
			l := newLab(t, hooked, func(ctx context.Context, _ job) error {
				<-ctx.Done()
				if cause := context.Cause(ctx); cause != worker.ErrOwnershipLost {
					t.Errorf("%s: cause: got %v, want %v", refusal, cause, worker.ErrOwnershipLost)
				}
				ended <- time.Since(began)
				return ctx.Err()
			})
			stop := l.Start(worker.Config{Visibility: visibility})
			l.sendJobs(t, job{ID: refusal})
			if d := <-ended; d < visibility/3 || d >= visibility {
				t.Errorf("%s: the context ended after %v; want before %v", refusal, d, visibility)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			healthy := newLab(t, s, func(context.Context, job) error { return nil })
			stop = healthy.Start(worker.Config{})
			healthy.empty(t, time.Second)
			calls := healthy.called()
			if len(calls) != 1 || calls[0].envelope.Attempts != 0 || calls[0].envelope.ID != refusal {
				t.Errorf("%s: got %+v; want the message, no attempt spent", refusal, calls)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A lost message is not renewed again, even when its handler runs on and the store is back: that would keep it from all
// workers.
func TestLostIsNotRenewed(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const visibility = 12 * time.Second
		var lost atomic.Bool
		late := 0
		l := newLab(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			switch {
			case op.Name != "extend":
				return do()
			case lost.Load():
				late++
				return do()
			}
			return op.Fail(storage.ErrUnavailable)
		}), func(ctx context.Context, _ job) error {
			if lost.Load() {
				return nil // delivered again
			}
			<-ctx.Done()
			lost.Store(true)
			time.Sleep(visibility / 2)
			return nil
		})
		stop := l.Start(worker.Config{Visibility: visibility, Queues: map[string]worker.QueueConfig{"jobs": {PollInterval: time.Hour}}})
		l.sendJobs(t, job{})
		time.Sleep(visibility)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if late > 0 || !lost.Load() {
			t.Errorf("got %d renewals after the message was lost (%v), want none", late, lost.Load())
		}
	})
}

// MaxDeliveries, and not MaxAttempts, bounds a message that keeps its handlers longer than they own it.
func TestOwnershipLostAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		link := storagetest.NewLink(worldtest.OpenStore(t, worldtest.Virtual))
		link.Cut("extend")
		n := 0
		l := newLab(t, link.Store, func(ctx context.Context, _ job) error {
			<-ctx.Done()
			if n++; n == 7 {
				link.Restore() // no worker may write to the poison queue a message that may be in other hands
			}
			return ctx.Err()
		})
		l.Start(worker.Config{Visibility: 6 * time.Second, MaxDeliveries: 7})
		l.sendJobs(t, job{})
		l.empty(t, time.Second)
		worldtest.Want(t, "calls", len(l.called()), 7)
		if p := l.onePoisoned(t); p.Reason != handlers.ReasonDeliveries || p.Attempts != 0 {
			t.Errorf("poisoned: got %+v", p)
		}
	})
}

// A worker that handles a large message to its end, after another worker got it, must not delete its body.
func TestLateWorkerLeavesTheBody(t *testing.T) {
	for _, kind := range []string{"reaction", "decision"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				const visibility = 6 * time.Second
				slowDone := make(chan struct{})
				late := storagetest.NewLink(s)
				late.Cut("extend")
				next := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Name == "get blob" && strings.Contains(op.Resource, "claims/") {
						<-slowDone
					}
					return do()
				})
				body := strings.Repeat("x", 100_000)
				var first, second *world
				handled := make(chan struct{}, 2)
				if kind == "reaction" {
					slow := newLab(t, late.Store, func(context.Context, job) error { time.Sleep(2 * visibility); return nil })
					fast := newLab(t, next, func(_ context.Context, j job) error {
						if j.Body != body {
							t.Errorf("got a body of %d bytes", len(j.Body))
						}
						handled <- struct{}{}
						return nil
					})
					slow.sendJobs(t, job{Body: body})
					first, second = &slow.world, &fast.world
				} else {
					first, second = newWorld(t, late.Store), newWorld(t, next)
					decide := first.decide
					first.decide = func(a Account, c Add) (Account, []channel.Message, error) {
						time.Sleep(2 * visibility)
						return decide(a, Add{To: c.To, Amount: c.Amount})
					}
					worldtest.Send(first.World, Add{To: "a", Amount: 1, Note: body})
				}
				stop := first.Start(worker.Config{Visibility: visibility})
				time.Sleep(time.Second)
				late.Cut("extend", "receive") // the worker receives nothing more
				second.Start(worker.Config{Visibility: visibility})
				time.Sleep(3 * visibility)
				late.Cut("receive")
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				worldtest.Want(t, "bodies while the message is in other hands", len(worldtest.Claims(t, s)), 1)
				close(slowDone)
				second.empty(t, time.Second)
				worldtest.Want(t, "bodies at the end", len(worldtest.Claims(t, s)), 0)
				for _, q := range second.Registry.Queues() {
					if all := second.Poisoned(q); len(all) > 0 {
						t.Errorf("poisoned: %+v", all)
					}
				}
				if kind == "reaction" {
					worldtest.Want(t, "handled by the other one", len(handled), 1)
				} else if d, err := second.Accounts.Get(t.Context(), "a", ""); err != nil || d.Value.Count != 1 {
					t.Errorf("got %+v, %v; want one decision", d.Value, err)
				}
			})
		})
	}
}

// When a worker stops, running handlers finish, and waiting messages are handed back at once and unspent.
func TestDrain(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(_ context.Context, j job) error {
			if j.Name == "slow" {
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		stop := l.Start(worker.Config{Concurrency: 2, MaxInHand: 64})
		var fast, slow []job
		for range 500 { // so that the worker learns to hold more than it runs
			fast = append(fast, job{Name: "fast"})
		}
		for range 30 {
			slow = append(slow, job{Name: "slow"})
		}
		l.sendJobs(t, fast...)
		l.empty(t, 20*time.Millisecond)
		l.sendJobs(t, slow...)
		time.Sleep(1100 * time.Millisecond)
		before := stats(t, s, "jobs")
		if before.InFlight <= 2 {
			t.Fatalf("the worker holds %d; the test needs more than it runs", before.InFlight)
		}
		stopped := make(chan error, 1)
		began := time.Now()
		go func() { stopped <- stop() }()
		time.Sleep(1100 * time.Millisecond)
		after := stats(t, s, "jobs")
		worldtest.Want(t, "in hand at once after the stop", int(after.InFlight), 2)
		worldtest.Want(t, "handed back", int(after.Ready), 28)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("stopped after %v; want as soon as the running ones have finished", d)
		}
		worldtest.Want(t, "left", int(stats(t, s, "jobs").Ready), 28)
		ds, err := s.Queue("jobs").Receive(t.Context(), 100, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			if e, err := wire.Decode(d.Body); err != nil || e.Attempts != 0 || e.HandBacks+1 != d.Deliveries {
				t.Errorf("handed back: got %+v after %d deliveries, %v", e, d.Deliveries, err)
			}
		}
	})
}

// A handler that runs longer than DrainTimeout is told to stop, and its message is handed back unspent.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(ctx context.Context, _ job) error {
			<-ctx.Done()
			if cause := context.Cause(ctx); cause != worker.ErrDraining {
				t.Errorf("cause: got %v, want %v", cause, worker.ErrDraining)
			}
			return ctx.Err()
		})
		stop := l.Start(worker.Config{DrainTimeout: 7 * time.Second, Visibility: 3 * time.Second})
		l.sendJobs(t, job{ID: "a"}, job{ID: "b"})
		time.Sleep(10 * time.Second)
		began := time.Now()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < 7*time.Second || d > 8*time.Second {
			t.Errorf("stopped after %v; want 7 s", d)
		}
		ds, err := s.Queue("jobs").Receive(t.Context(), 100, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "handed back", len(ds), 2)
		for _, d := range ds {
			if e, err := wire.Decode(d.Body); err != nil || e.Attempts != 0 || e.HandBacks != 1 {
				t.Errorf("handed back: got %+v, %v", e, err)
			}
		}
	})
}

// A handler that won't stop is reported, and its message is handed back. Its later result has no effect.
func TestStuckHandler(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		g := newGate(t)
		l := newLab(t, s, func(context.Context, job) error { g.hang(); return errors.New("too late") })
		stop := l.Start(worker.Config{DrainTimeout: 10 * time.Millisecond})
		l.sendJobs(t, job{ID: "a"})
		time.Sleep(2 * time.Second)
		err := stop()
		if err == nil || !strings.Contains(err.Error(), "1 handler(s) did not stop") || !strings.Contains(err.Error(), "jobs") {
			t.Errorf("got %v; want an error that tells of the handler and its queue", err)
		}
		if st := stats(t, s, "jobs"); st.Ready != 1 {
			t.Errorf("queue: got %+v; want the message handed back", st)
		}
		g.open()
		synctest.Wait()
		ds, err := s.Queue("jobs").Receive(t.Context(), 1, time.Minute)
		if err != nil || len(ds) != 1 {
			t.Fatalf("got %d messages, %v", len(ds), err)
		}
		if e, err := wire.Decode(ds[0].Body); err != nil || e.Attempts != 0 || e.HandBacks != 1 {
			t.Errorf("handed back: got %+v, %v", e, err)
		}
	})
}

// A handler that runs long is reported, again and again; no log line holds a body.
func TestLongRunningIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(context.Context, job) error { time.Sleep(5 * time.Minute); return nil })
		log := worldtest.NewLog()
		l.Start(worker.Config{Name: "w", StuckAfter: time.Minute, Visibility: 12 * time.Second, Logger: slog.New(log)})
		l.sendJobs(t, job{ID: "long-job", Body: "secret"})
		l.empty(t, time.Second)
		if n := log.Count("runs longer than StuckAfter", "id=long-job"); n < 3 || n > 5 {
			t.Errorf("reports: got %d, want one a minute", n)
		}
		worldtest.Want(t, "lines with the body", log.Count("secret"), 0)
		worldtest.Want(t, "announcement", log.Count("worker starts worker=w"), 1)
		worldtest.Want(t, "what is consumed", log.Count("worker consumes queue=jobs kinds=test.job.v1 → react jobs"), 1)
	})
}

func TestStartProbesTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		link := storagetest.NewLink(worldtest.OpenStore(t, worldtest.Virtual))
		link.Cut("stats")
		l := newLab(t, link.Store, func(context.Context, job) error { return nil })
		w, err := worker.New(l.Registry, worker.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, storage.ErrUnavailable)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		link.Restore()
		if err := w.Run(ended); err != nil {
			t.Errorf("run under an ended context: got %v", err)
		}
	})
}

// One worker doesn't run twice at a time: its counts and metrics would mix both runs.
func TestRunOnceAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(context.Context, job) error { return nil })
		w, err := worker.New(l.Registry, worker.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			first := make(chan error, 1)
			go func() { first <- w.Run(ctx) }()
			synctest.Wait()
			if err := w.Run(ctx); err == nil {
				t.Error("a second Run beside the first is no error")
			}
			cancel()
			if err := <-first; err != nil {
				t.Errorf("the first Run: got %v", err)
			}
		}
	})
}

// While receiving fails the worker tries again, more and more seldom. It goes on when receiving works again.
func TestReceiveRecovers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls storagetest.Calls
		link := storagetest.NewLink(worldtest.OpenStore(t, worldtest.Virtual))
		l := newLab(t, storagetest.Intercept(link.Store, calls.Hook), func(context.Context, job) error { return nil })
		log := worldtest.NewLog()
		l.Start(worker.Config{Logger: slog.New(log)})
		for round := range 2 {
			synctest.Wait()
			link.Cut("receive")
			before := calls.Count("receive")
			l.sendJobs(t, job{})
			time.Sleep(5 * time.Minute)
			if n := calls.Count("receive") - before; n < 20 || n > 60 {
				t.Errorf("tried %d times in 5 minutes; want growing delays up to 10 s", n)
			}
			worldtest.Want(t, "handled meanwhile", len(l.called()), round)
			link.Restore()
			began := time.Now()
			l.empty(t, time.Second)
			if d := time.Since(began); d > 15*time.Second {
				t.Errorf("recovered after %v", d)
			}
			worldtest.Want(t, "log lines of the trouble", log.Count("can't receive"), round+1)
			worldtest.Want(t, "log lines of its end", log.Count("can receive again"), round+1)
		}
	})
}
