package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// maxHangs is how often a message's handler may hang before the message goes to the poison queue.
const maxHangs = 3

// hung counts the handlers of a queue that were given up and have not ended. Each keeps its goroutine and all that it
// refers to, so their number is bounded. At the bound the worker takes no more messages off the queue until one ends.
type hung struct {
	queue string
	most  int
	log   *slog.Logger
	gauge prometheus.Gauge
	full  atomic.Bool // n has reached most

	mu    sync.Mutex
	n     int
	freed chan struct{} // closed when n is below most again
}

func newHung(queue string, most int, log *slog.Logger, gauge prometheus.Gauge) *hung {
	return &hung{queue: queue, most: most, log: log, gauge: gauge, freed: make(chan struct{})}
}

// add counts a handler until it ends.
func (h *hung) add(ended <-chan struct{}) {
	h.change(1)
	go func() {
		<-ended
		h.change(-1)
	}()
}

func (h *hung) change(by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n += by
	h.gauge.Add(float64(by))
	full := h.n >= h.most
	if h.full.Swap(full) == full {
		return
	}
	if full {
		h.log.LogAttrs(context.Background(), slog.LevelError, "too many handlers hang; nothing more is taken off the queue until one of them ends, or the program is started again",
			slog.String("queue", h.queue), slog.Int("hang", h.n))
		return
	}
	close(h.freed)
	h.freed = make(chan struct{})
	h.log.LogAttrs(context.Background(), slog.LevelInfo, "a handler that hung has ended; messages are taken off the queue again", slog.String("queue", h.queue))
}

// wait returns when fewer than most handlers hang, or when ctx ends.
func (h *hung) wait(ctx context.Context) {
	h.mu.Lock()
	freed, full := h.freed, h.full.Load()
	h.mu.Unlock()
	if !full {
		return
	}
	select {
	case <-freed:
	case <-ctx.Done():
	}
}

// Healthy returns an error while the worker takes no more messages off a queue because as many of its handlers hang as
// may run at a time. A program that is not healthy should be started again.
func (w *Worker) Healthy() error {
	for _, q := range w.cfg.Queues {
		if h := w.hung[q]; h.full.Load() {
			return fmt.Errorf("worker: %d or more handlers of queue %s hang; start the program again, and see the log for where they are", h.most, q)
		}
	}
	return nil
}
