package limiters

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/worker"
)

const lookAgain = 30 * time.Second // at a blob that is no gate

// Gate pauses a queue while the gate of that name is closed. A worker whose gate has a name that is no good doesn't
// start.
func Gate(name string) worker.OpenLimiter {
	return func(ctx context.Context, c worker.Consumer) (worker.Limiter, error) {
		g, err := gate.New(c.Store, name, gate.Config{Logger: c.Logger})
		if err != nil {
			return nil, fmt.Errorf("limiters: %w", err)
		}
		t := &gateLimiter{log: c.Logger.With(slog.String("worker", c.Worker), slog.String("gate", name)), changed: make(chan struct{}), ended: make(chan struct{})}
		ctx, t.stop = context.WithCancel(ctx)
		go t.watch(ctx, g)
		return t, nil
	}
}

// A gateLimiter is a worker's view of a gate.
type gateLimiter struct {
	log   *slog.Logger
	stop  context.CancelFunc
	ended chan struct{} // closed when the watch has ended

	mu      sync.Mutex
	open    bool          // under mu
	seen    bool          // the gate has been read; under mu
	changed chan struct{} // closed when open changes; under mu
}

func (t *gateLimiter) Now() (worker.Limits, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return worker.Limits{Pause: !t.open}, t.changed
}

func (t *gateLimiter) Leave(ctx context.Context) error {
	t.stop()
	select {
	case <-t.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("limiters: the watch of the gate goes on: %w", context.Cause(ctx))
	}
}

// watch sees the gate's changes until ctx ends.
func (t *gateLimiter) watch(ctx context.Context, g *gate.Gate) {
	defer close(t.ended)
	for failing := false; ctx.Err() == nil; wait(ctx, lookAgain) {
		for s, err := range g.Watch(ctx) {
			news := t.set(s.Open) // closed, if it can't be used
			if err != nil {
				if !failing {
					t.log.LogAttrs(ctx, slog.LevelError, "the gate of a queue can't be used; the queue is paused", slog.Any("error", err))
				}
				failing = true
				break
			}
			if news || failing {
				failing = false
				t.log.LogAttrs(ctx, slog.LevelInfo, event(s.Open), slog.String("by", s.By), slog.String("why", s.Why), slog.Int64("epoch", s.Epoch))
			}
		}
	}
}

func event(open bool) string {
	if open {
		return "the gate of a queue is open"
	}
	return "the gate of a queue is closed"
}

// set notes whether the gate is open, and reports that this is news.
func (t *gateLimiter) set(open bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := open != t.open
	if news {
		t.open = open
		close(t.changed)
		t.changed = make(chan struct{})
	}
	first := !t.seen
	t.seen = true
	return news || first
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
