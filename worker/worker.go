package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/wall"
	"github.com/millrace-go/millrace/storage"
)

// A Worker consumes queues of its registry's store.
type Worker struct {
	store   *storage.Store // the store of the registry's channels
	h       *handling.Registry
	cfg     Config
	stats   map[string]*queueMetrics // by queue
	hung    map[string]*hung         // by queue
	running atomic.Bool
}

// New returns a worker for the handlers of a registry. All handlers must be registered by then. The worker consumes the
// queues of the store that the registry's channels send to. The error reports every fault of the registry and the
// Config.
func New(h *handlers.Registry, cfg Config) (*Worker, error) {
	cfg, err := cfg.withDefaults(h)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("worker: metrics: %w", err)
	}
	w := &Worker{store: h.Channels().Store(), h: h.Inside(), cfg: cfg, stats: map[string]*queueMetrics{}, hung: map[string]*hung{}}
	for _, q := range cfg.Consume {
		w.stats[q] = m.queue(q, w.h.Handlers.Of(q)) // now, so that a worker that stands by has its metrics too
		w.hung[q] = newHung(q, cfg.Queues[q].Concurrency, cfg.Logger, w.stats[q].abandoned)
	}
	return w, nil
}

// Handled tells how many messages of a queue this worker has handled and deleted.
func (w *Worker) Handled(queue string) int64 {
	if q := w.stats[queue]; q != nil {
		return q.done.n.Load()
	}
	return 0
}

// Counts returns what this worker has done so far with each queue that it consumes.
func (w *Worker) Counts() map[string]Counts {
	all := make(map[string]Counts, len(w.stats))
	for queue, q := range w.stats {
		all[queue] = q.counts()
	}
	return all
}

// Name returns Config.Name, or its default.
func (w *Worker) Name() string { return w.cfg.Name }

// Run works until ctx ends, and then stops in order; see the package comment. Afterwards it can run again. It returns
//
//   - nil after an orderly stop,
//   - an error at once when the store can't be reached at the start, when the worker runs already, or when something
//     that is registered finds its documents unfit for this program,
//   - an error at the end when handlers would not stop.
func (w *Worker) Run(ctx context.Context) error {
	if !w.running.CompareAndSwap(false, true) {
		return errors.New("worker: it runs already; two at a time are two workers, each from New")
	}
	defer w.running.Store(false)
	ctx, stop := context.WithCancel(ctx)
	defer stop() // the limiters' context ends also when the worker doesn't start
	if err := w.checkStart(ctx); ctx.Err() != nil {
		return nil // stopped before it began
	} else if err != nil {
		return fmt.Errorf("worker: start: %w", err)
	}
	// Handlers outlive ctx: they get DrainTimeout.
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	suspects := new(suspects)
	all := make([]*consumer, len(w.cfg.Consume))
	for i, q := range w.cfg.Consume {
		all[i] = newConsumer(running, w.setup(q), w.hung[q], suspects)
	}
	w.announce(ctx)
	if err := openAll(ctx, all); err != nil {
		if ctx.Err() == nil {
			return fmt.Errorf("worker: start: %w", err)
		}
		w.stopped(ctx, nil) // before it took a message
		return nil
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() { errs[i] = c.run(ctx, running) })
	}
	go wall.Watch(ctx, time.Now, w.clockSet(ctx))
	wg.Wait()
	err := errors.Join(errs...)
	w.stopped(ctx, err)
	return err
}

// clockSet returns what is done once the wall clock was set.
func (w *Worker) clockSet(ctx context.Context) func(by time.Duration) error {
	return func(by time.Duration) error {
		log := w.cfg.Logger.With("worker", w.cfg.Name, "by", by)
		ctx, cancel := context.WithTimeout(ctx, outcomeTime)
		defer cancel()
		if err := w.h.Hooks.ClockSet(ctx); err != nil {
			log.LogAttrs(ctx, slog.LevelWarn, "the clock of this machine was set; can't look again at what waits for a time; trying again", slog.Any("error", err))
			return err
		}
		log.LogAttrs(ctx, slog.LevelInfo, "the clock of this machine was set; what waits for a time is looked at again")
		return nil
	}
}

// checkStart makes sure that the queues can be reached, and makes the checks of the registry.
func (w *Worker) checkStart(ctx context.Context) error {
	for _, q := range w.cfg.Consume {
		if _, err := w.store.Queue(q).Stats(ctx); err != nil {
			return err
		}
	}
	return w.h.Hooks.CheckStart(ctx)
}

// stopped logs the end of a worker whose start is logged.
func (w *Worker) stopped(ctx context.Context, err error) {
	attrs := []slog.Attr{slog.String("worker", w.cfg.Name)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	w.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "worker stopped", attrs...)
}

// openAll opens the limiters of all consumers. After an error none is open.
func openAll(ctx context.Context, all []*consumer) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() {
			if errs[i] = c.openLimiters(ctx); errs[i] != nil {
				errs[i] = fmt.Errorf("limiter of queue %s: %w", c.queue, errs[i])
			}
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	for i, c := range all {
		if err != nil && errs[i] == nil {
			wg.Go(func() { c.leave(ctx) })
		}
	}
	wg.Wait()
	return err
}

// announce logs the worker's limits, which queues are consumed, and with which limits of their own.
func (w *Worker) announce(ctx context.Context) {
	c, log := w.cfg, w.cfg.Logger
	log.LogAttrs(ctx, slog.LevelInfo, "worker starts",
		slog.String("worker", c.Name), slog.String("store", w.store.Props().Driver),
		slog.Int("concurrency", c.Concurrency), slog.Int("max_in_hand", c.MaxInHand), slog.Int("max_bodies", c.MaxBodies), slog.Duration("visibility", c.Visibility),
		slog.Int("max_attempts", c.MaxAttempts), slog.Int("max_deliveries", c.MaxDeliveries), slog.Duration("drain_timeout", c.DrainTimeout))
	for _, q := range c.Consume {
		var kinds []string
		for _, h := range w.h.Handlers.Of(q) {
			kinds = append(kinds, fmt.Sprintf("%s → %s", h.Kind(), h.Name()))
		}
		own := c.Queues[q]
		log.LogAttrs(ctx, slog.LevelInfo, "worker consumes", slog.String("queue", q), slog.String("kinds", strings.Join(kinds, ", ")),
			slog.Int("concurrency", own.Concurrency), slog.Int("max_in_hand", own.MaxInHand), slog.Int("max_bodies", own.MaxBodies),
			slog.Duration("visibility", own.Visibility), slog.Int("max_attempts", own.MaxAttempts), slog.Int("reserved", own.Reserve.slots()), slog.Bool("has_limiter", own.Limiter != nil))
	}
	known := w.h.Handlers.Queues()
	for _, q := range w.h.Channels.Routes().Queues() {
		if !slices.Contains(known, q) {
			log.LogAttrs(ctx, slog.LevelInfo, "the routes name a queue that has no handler here; another program must consume it", slog.String("queue", q))
		}
	}
}

// setup returns what the rooms of a queue's consumer work with.
func (w *Worker) setup(queue string) setup {
	return setup{
		queue: queue, q: w.store.Queue(queue), store: w.store, registry: w.h, cfg: w.cfg.Queues[queue], all: &w.cfg,
		log: w.cfg.Logger.With("queue", queue), stats: w.stats[queue],
	}
}

// Healthy returns an error while the worker takes no more messages off a queue because as many of its handlers hang as
// may run at a time. A program that is not healthy should be started again.
func (w *Worker) Healthy() error {
	for _, q := range w.cfg.Consume {
		if err := w.hung[q].err(); err != nil {
			return err
		}
	}
	return nil
}
