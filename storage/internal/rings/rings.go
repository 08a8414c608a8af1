// Package rings is the part of Listen (see driver.Listener) that drivers share: the consumers of one process that wait
// for rings, and the timers of what becomes ready by time.
//
//	c, stop := rings.Add("mails")                   // a consumer waits
//	rings.At("mails", time.Now().Add(time.Minute))  // a delay will end
//	rings.At("mails", time.Time{})                  // something was sent
//
// # Laws
//
//   - Rings that nobody takes are folded into one.
//   - A queue has one timer, for the earliest time that is known. A consumer that finds nothing asks the store for the
//     next one.
//   - A time far away rings in between, because timers don't know that a clock was set or that the machine has slept.
package rings

import (
	"sync"
	"time"
)

// Rings are the consumers of one process that want rings. Make them by [New].
type Rings struct {
	mu     sync.Mutex
	queues map[string]*watched
	closed bool
}

// watched is a queue that has consumers.
type watched struct {
	rings map[chan struct{}]struct{}
	timer *time.Timer // rings at due
	due   time.Time   // zero: the timer is not set
}

// New returns Rings without consumers.
func New() *Rings { return &Rings{queues: map[string]*watched{}} }

// Add adds a consumer of a queue, until stop is called. The consumer is rung once at the beginning, so that its first
// look sets the timer for messages that are not due yet.
func (w *Rings) Add(queue string) (rings <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return c, func() {}
	}
	q := w.queues[queue]
	if q == nil {
		q = &watched{rings: map[chan struct{}]struct{}{}}
		w.queues[queue] = q
	}
	q.rings[c] = struct{}{}
	c <- struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(q.rings, c)
		if len(q.rings) == 0 && w.queues[queue] == q {
			q.disarm()
			delete(w.queues, queue)
		}
	}
}

// Watches reports whether a queue has consumers.
func (w *Rings) Watches(queue string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queues[queue] != nil
}

// Queues returns how many queues have consumers.
func (w *Rings) Queues() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queues)
}

// Anyway is how late a ring may be where the wall clock decides what is due, after the clock was set forward or the
// machine slept. Timers don't know of either.
const Anyway = 5 * time.Minute

// At rings a queue at t. A ring that is set for an earlier time comes instead. Where t is far away it rings in between,
// and the consumer's look sets the timer again.
func (w *Rings) At(queue string, t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[queue]
	if q == nil {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		q.ring()
		return
	}
	if !q.due.IsZero() && !t.Before(q.due) {
		return
	}
	q.disarm()
	q.due = t
	var timer *time.Timer
	timer = time.AfterFunc(min(wait, Anyway), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if q.timer == timer {
			q.disarm()
			q.ring()
		}
	})
	q.timer = timer
}

// All rings every queue.
func (w *Rings) All() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queues {
		q.ring()
	}
}

// Close ends all timers. No consumer is rung any more.
func (w *Rings) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, q := range w.queues {
		q.disarm()
	}
	clear(w.queues)
}

func (q *watched) ring() {
	for c := range q.rings {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (q *watched) disarm() {
	if q.timer != nil {
		q.timer.Stop()
	}
	q.timer, q.due = nil, time.Time{}
}
