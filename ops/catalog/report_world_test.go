package catalog_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// job is a message of the tests.
type job struct {
	Name string `json:"name"`
}

func (job) Kind() channel.Kind { return "test.job.v1" }

// A world has a worker with one reaction to jobs. A job called bad fails.
type world struct {
	*worldtest.World
	worker *worker.Worker
}

func newWorld(t testing.TB, s *storage.Store) *world {
	t.Helper()
	w := &world{World: worldtest.NewBare(t, s, handlers.Config{}, channel.Command[job]("jobs"), channel.Command[worldtest.Add]("idle"))}
	handlers.React(w.Registry, "jobs", func(_ context.Context, j job) error {
		if j.Name == "bad" {
			return errors.New("no")
		}
		return nil
	})
	handlers.React(w.Registry, "idle", func(context.Context, worldtest.Add) error { return nil })
	return w.another(t)
}

// another is the same world with another worker.
func (w *world) another(t testing.TB) *world {
	t.Helper()
	wk, err := worker.New(w.Registry, worker.Config{MaxAttempts: 2, Name: "one", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return &world{World: w.World, worker: wk}
}

// publisher makes the publisher of the world's worker.
func (w *world) publisher(t testing.TB, s *storage.Store, cfg catalog.ReporterConfig) *catalog.Reporter {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Program, cfg.Version = "shop", "v1"
	p, err := catalog.NewReporter(s, w.worker, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs something until stop is called.
func run(t testing.TB, what func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- what(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// work runs the worker and its publisher, in the order of package host.
func (w *world) work(t testing.TB, s *storage.Store, cfg catalog.ReporterConfig) (stop func()) {
	t.Helper()
	p := w.publisher(t, s, cfg)
	stopReporter, stopWorker := run(t, p.Run), run(t, w.worker.Run)
	return func() { stopWorker(); stopReporter() }
}

func readAll(t testing.TB, s *storage.Store) []catalog.Report {
	t.Helper()
	all, err := catalog.ReadAll(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readReports(t testing.TB, s *storage.Store) []catalog.Report {
	t.Helper()
	all, err := catalog.ReadReports(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantSum checks that the reports add up to what the worker has done, and their times to how long it has published.
func (w *world) wantSum(t testing.TB, all []catalog.Report) {
	t.Helper()
	sum, kinds, seconds := catalog.QueueReport{}, catalog.KindReport{}, 0.0
	for _, p := range all {
		q := p.Queues["jobs"]
		sum.Done, sum.Retried, sum.Poisoned, sum.HandedBack = sum.Done+q.Done, sum.Retried+q.Retried, sum.Poisoned+q.Poisoned, sum.HandedBack+q.HandedBack
		kinds.Done, kinds.Failed = kinds.Done+q.Kinds["test.job.v1"].Done, kinds.Failed+q.Kinds["test.job.v1"].Failed
		seconds += p.Seconds
	}
	c := w.worker.Counts()["jobs"]
	want := catalog.QueueReport{Done: c.Done, Retried: c.Retried, Poisoned: c.Poisoned, HandedBack: c.HandedBack}
	if sum.Done != want.Done || sum.Retried != want.Retried || sum.Poisoned != want.Poisoned || sum.HandedBack != want.HandedBack || kinds != catalog.KindReport(c.Kinds["test.job.v1"]) {
		t.Errorf("%d reports: got %+v and %+v, want %+v", len(all), sum, kinds, c)
	}
	if up := all[len(all)-1].Up; seconds < up-0.1 || seconds > up+0.1 {
		t.Errorf("the reports count %v seconds of %v", seconds, up)
	}
}
