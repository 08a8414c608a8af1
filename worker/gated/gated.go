// Package gated holds a worker's queue behind a gate of package coord/gate.
//
//	worker.Config{Queues: map[string]worker.QueueConfig{
//		"orders": {Limiter: gated.Behind("start-order-processing")}, // in every worker that consumes the queue
//	}}
//
// While the gate is closed, the worker takes no messages off the queue. It begins when the gate opens. When the gate
// is closed again, the worker hands back the messages that wait, and finishes those that run. That costs no attempt.
//
// An operator opens and closes the gate by "millrace gates", and a program by package coord/gate. To hold a queue
// behind two gates, or to limit it by other limiters as well, combine them by worker.Limiters.
//
// # How it works
//
// The worker watches the gate. A change takes effect at once where the store rings. Elsewhere, and after a ring that
// was lost, the worker sees an opening within 2.5 seconds, and a closing within 30.
//
// While the store can't be read, the queue stays as it was. Until the gate has been read for the first time, and while
// its blob is no gate, the queue is paused.
//
// # Cost
//
// Each queue behind a gate costs each worker some 1600 reads an hour while the gate is closed, and some 130 while it is
// open, nearly all answered "not modified".
package gated

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

// Behind pauses a queue while the gate of that name is closed. A worker whose gate has a name that is no good doesn't
// start.
func Behind(name string) worker.OpenLimiter {
	return func(ctx context.Context, c worker.Consumer) (worker.Limiter, error) {
		g, err := gate.New(c.Store, name, gate.Config{Logger: c.Logger})
		if err != nil {
			return nil, fmt.Errorf("gated: %w", err)
		}
		t := &limiter{log: c.Logger.With(slog.String("worker", c.Worker), slog.String("gate", name)), changed: make(chan struct{}), ended: make(chan struct{})}
		ctx, t.stop = context.WithCancel(ctx)
		go t.watch(ctx, g)
		return t, nil
	}
}

// limiter is a worker's view of a gate.
type limiter struct {
	log   *slog.Logger
	stop  context.CancelFunc
	ended chan struct{} // closed when the watch has ended

	mu      sync.Mutex
	open    bool          // under mu
	seen    bool          // the gate has been read; under mu
	changed chan struct{} // closed when open changes; under mu
}

func (t *limiter) Now() (worker.Limits, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return worker.Limits{Pause: !t.open}, t.changed
}

func (t *limiter) Leave(ctx context.Context) error {
	t.stop()
	select {
	case <-t.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gated: the watch of the gate goes on: %w", context.Cause(ctx))
	}
}

// watch sees the gate's changes until ctx ends.
func (t *limiter) watch(ctx context.Context, g *gate.Gate) {
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
func (t *limiter) set(open bool) bool {
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
