package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/prometheus/client_golang/prometheus"
)

// maxHangs is how often a message's handler may hang before the message goes to the poison queue.
const maxHangs = 3

// hung counts the handlers of a queue that were given up and have not ended. Each keeps its goroutine and all that it
// refers to, so their number is bounded. At the bound the worker takes no more messages off the queue until one ends.
type hung struct {
	queue string
	log   *slog.Logger
	gauge prometheus.Gauge
	full  atomic.Bool // n has reached most

	mu    sync.Mutex
	most  int
	n     int
	freed chan struct{} // closed when n is below most again
}

func newHung(queue string, most int, log *slog.Logger, gauge prometheus.Gauge) *hung {
	return &hung{queue: queue, log: log, most: most, gauge: gauge, freed: make(chan struct{})}
}

// add counts a handler until it ends.
func (h *hung) add(ended <-chan struct{}) {
	h.change(1)
	go func() {
		<-ended
		h.change(-1)
	}()
}

// count counts the goroutine of a call that was given up, if err is of one.
func (h *hung) count(err error) {
	if hangs, ok := err.(*verdict.HangError); ok {
		h.add(hangs.Ended)
	}
}

func (h *hung) change(by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n += by
	h.gauge.Add(float64(by))
	h.compare()
}

// setMost changes how many handlers may hang.
func (h *hung) setMost(most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = most
	h.compare()
}

// compare notes whether too many handlers hang. The caller holds the mutex.
func (h *hung) compare() {
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
	h.log.LogAttrs(context.Background(), slog.LevelInfo, "fewer handlers hang than may run; messages are taken off the queue again", slog.String("queue", h.queue))
}

// wait returns nil, or a channel that is closed when fewer than most handlers hang again.
func (h *hung) wait() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.full.Load() {
		return nil
	}
	return h.freed
}

// err returns an error while too many handlers hang.
func (h *hung) err() error {
	if !h.full.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Errorf("worker: %d or more handlers of queue %s hang; start the program again, and see the log for where they are", h.most, h.queue)
}
