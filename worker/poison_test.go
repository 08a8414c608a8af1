package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A worker was suspended before it could write a message to the poison queue, while another one handled it. It writes
// nothing there.
func TestPoisonOfALostMessage(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var judged, still atomic.Bool
		standing := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if judged.Load() && op.Name != "receive" && still.CompareAndSwap(false, true) {
				time.Sleep(6 * time.Second) // suspended, whatever it was about to do
			}
			return do()
		})
		link := storagetest.NewLink(standing)
		late := newLab(t, link.Store, func(context.Context, job) error {
			judged.Store(true)
			link.Cut("receive")
			return handlers.Poison("never", errors.New("not by this one"))
		})
		metrics := prometheus.NewRegistry()
		late.sendJobs(t, job{ID: "a"})
		stop := late.Start(worker.Config{Visibility: 4 * time.Second, Metrics: metrics})
		time.Sleep(time.Second)
		next := newLab(t, s, func(context.Context, job) error { return nil })
		stopNext := next.Start(worker.Config{})
		time.Sleep(10 * time.Second)
		for _, stop := range []func() error{stop, stopNext} {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		}
		if !still.Load() || len(late.called()) != 1 || len(next.called()) != 1 {
			t.Fatalf("stood still: %v, calls %d and %d; the test needs one each", still.Load(), len(late.called()), len(next.called()))
		}
		if all := next.Poisoned("jobs"); len(all) > 0 {
			t.Errorf("in the poison queue: %+v; it was handled", all)
		}
		for name, want := range map[string]float64{"lost": 1, "poisoned": 0, "done": 0} {
			if got := gathered(t, metrics)["millrace_deliveries_total "+name+" jobs"]; got != want {
				t.Errorf("deliveries that were %s: got %v, want %v", name, got, want)
			}
		}
	})
}

// A verdict of poison is logged once, with the whole chain of its cause. Without a logger of its own the worker uses
// the registry's.
func TestPoisonIsLoggedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nil)
		for _, name := range []string{"shared", "own"} {
			shared, own := worldtest.NewLog(), worldtest.NewLog()
			cfg, used, unused := worker.Config{}, shared, own
			if name == "own" {
				cfg.Logger, used, unused = slog.New(own), own, shared
			}
			h := handlers.NewRegistry(l.Channels, handlers.Config{Logger: slog.New(shared)})
			handlers.React(h, "jobs", func(context.Context, job) error { return handlers.Poison("never", errors.New("no such customer")) })
			w, err := worker.New(h, cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			l.sendJobs(t, job{ID: name})
			l.empty(t, time.Second)
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			worldtest.Want(t, name+": lines of the failure", used.Count("no such customer"), 1)
			worldtest.Want(t, name+": lines of its end", used.Count("message is in the poison queue", "id="+name+" kind=test.job.v1 handler=react jobs reason=never"), 1)
			worldtest.Want(t, name+": lines with the handler", used.Count("handler=react jobs"), 1)
			worldtest.Want(t, name+": start", used.Count("worker starts"), 1)
			worldtest.Want(t, name+": lines elsewhere", unused.Count(), 0)
		}
	})
}

// step is a message that sends its successor with a delay.
type step struct {
	ID string `json:"id,omitempty"`
	N  int    `json:"n"`
}

func (step) Kind() channel.Kind  { return "test.step.v1" }
func (s step) MessageID() string { return s.ID }

// A chain of delayed messages may go on for longer than messages are remembered.
func TestLongChainOfDelays(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const n, delay = 12, 6 * 24 * time.Hour
		w := newBare(t, patient(s, time.Hour), channel.Command[step]("steps"))
		steps := worldtest.SenderOf[step](t, w.Channels)
		var done []int
		handlers.ReactOnce(w.Registry, "steps", func(ctx context.Context, m step) error {
			done = append(done, m.N)
			if m.N == n {
				return nil
			}
			return steps.SendAfter(ctx, delay, step{N: m.N + 1})
		})
		w.Start(worker.Config{Visibility: 12 * time.Hour})
		if err := steps.Send(t.Context(), step{ID: worldtest.IDAt(time.Now(), 1), N: 1}); err != nil {
			t.Fatal(err)
		}
		w.empty(t, 6*time.Hour)
		worldtest.Want(t, "steps", len(done), n)
		for _, p := range w.Poisoned("steps") {
			t.Errorf("poisoned: %s: %s", p.Reason, p.Error)
		}
	})
}
