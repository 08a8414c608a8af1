package limiters

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/internal/metrics"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// A PausesConfig is what [Pauses] needs besides the worker. The zero PausesConfig is right for most.
type PausesConfig struct {
	// Metrics gets the gauge millrace_paused, by queue. Defaults to none.
	Metrics prometheus.Registerer

	// Logger gets failures to read the pauses. Defaults to that of the queue that is opened first.
	Logger *slog.Logger
}

// Pauses pauses a queue while an operator wants that. The queues that share the returned value share one watch for each
// store. A worker doesn't start if the metrics can't be registered.
func Pauses(cfg PausesConfig) worker.OpenLimiter {
	h := &hand{cfg: cfg, watches: map[*storage.Store]*watch{}}
	return h.open
}

// hand has the watches of a process.
type hand struct {
	cfg PausesConfig

	mu      sync.Mutex
	watches map[*storage.Store]*watch // under mu
}

// open makes a limiter that follows the watch of its store. The first one begins the watch.
func (h *hand) open(ctx context.Context, c worker.Consumer) (worker.Limiter, error) {
	gauge, err := metrics.Register(h.cfg.Metrics, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "millrace", Name: "paused", Help: "1 while the queue is paused by hand, else 0.",
	}, []string{"queue"}))
	if err != nil {
		return nil, fmt.Errorf("limiters: metrics: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.watches[c.Store]
	if w == nil {
		log := h.cfg.Logger
		if log == nil {
			log = c.Logger
		}
		pauses, err := pause.New(c.Store, pause.Config{Logger: log})
		if err != nil {
			return nil, fmt.Errorf("limiters: %w", err)
		}
		w = newWatch(context.WithoutCancel(ctx), pauses)
		h.watches[c.Store] = w
	}
	t := &pauseLimiter{
		hand: h, store: c.Store, queue: c.Queue, gauge: gauge.WithLabelValues(c.Queue), changed: make(chan struct{}),
		log: c.Logger.With(slog.String("worker", c.Worker)), ctx: ctx,
	}
	w.join(t)
	return t, nil
}

// leave ends a limiter's part in its watch. The last one ends the watch, and gets the channel that is closed then.
func (h *hand) leave(t *pauseLimiter) (ended <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.watches[t.store]
	if w == nil || !w.part(t) {
		return nil
	}
	delete(h.watches, t.store)
	w.stop()
	return w.ended
}

// watch tells the limiters of a store what it sees.
type watch struct {
	stop  context.CancelFunc
	ended chan struct{} // closed when it has ended

	mu       sync.Mutex
	all      map[string]pause.Pause     // in force; nil: not known yet; under mu
	limiters map[*pauseLimiter]struct{} // under mu
}

func newWatch(ctx context.Context, pauses *pause.Pauses) *watch {
	w := &watch{ended: make(chan struct{}), limiters: map[*pauseLimiter]struct{}{}}
	ctx, w.stop = context.WithCancel(ctx)
	go func() {
		defer close(w.ended)
		for all := range pauses.Watch(ctx) {
			w.tell(all)
		}
	}()
	return w
}

// tell tells all limiters which pauses are in force from now on.
func (w *watch) tell(all map[string]pause.Pause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = all
	for t := range w.limiters {
		t.set(all)
	}
}

// join adds a limiter, and tells it what is known.
func (w *watch) join(t *pauseLimiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limiters[t] = struct{}{}
	if w.all != nil {
		t.set(w.all)
	}
}

// part removes a limiter, and reports that it was the last one.
func (w *watch) part(t *pauseLimiter) (last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.limiters, t)
	return len(w.limiters) == 0
}

// A pauseLimiter is a consumer's view of the pause of its queue.
type pauseLimiter struct {
	hand  *hand
	store *storage.Store
	queue string
	gauge prometheus.Gauge
	log   *slog.Logger
	ctx   context.Context // for log lines

	mu      sync.Mutex
	known   bool          // whether the queue is paused; under mu
	paused  bool          // under mu
	pause   pause.Pause   // under mu
	changed chan struct{} // closed when limits change; under mu
}

func (t *pauseLimiter) Now() (worker.Limits, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return worker.Limits{Pause: t.paused || !t.known}, t.changed
}

func (t *pauseLimiter) Leave(ctx context.Context) error {
	ended := t.hand.leave(t)
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("limiters: the watch of the pauses goes on: %w", context.Cause(ctx))
	}
}

// set notes whether the queue is paused.
func (t *pauseLimiter) set(all map[string]pause.Pause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, paused := all[t.queue]
	held := t.paused || !t.known
	switch {
	case paused && p != t.pause:
		attrs := []slog.Attr{slog.String("by", p.By), slog.String("why", p.Why)}
		if !p.Until.IsZero() {
			attrs = append(attrs, slog.Time("until", p.Until))
		}
		t.log.LogAttrs(t.ctx, slog.LevelInfo, "queue is paused by hand", attrs...)
		t.gauge.Set(1)
	case !paused && t.paused:
		t.log.LogAttrs(t.ctx, slog.LevelInfo, "queue is not paused by hand any more")
		t.gauge.Set(0)
	case !t.known:
		t.gauge.Set(0)
	}
	t.known, t.paused, t.pause = true, paused, p
	if held != paused {
		close(t.changed)
		t.changed = make(chan struct{})
	}
}
