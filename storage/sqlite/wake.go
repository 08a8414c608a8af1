package sqlite

import (
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// A subscription implements driver.Subscription.
type subscription struct {
	s     *store
	topic string
	rings <-chan struct{}
	stop  func()
}

// A listener implements driver.Listener.
type listener struct{ s *store }

// Listen implements driver.Listener. It rings once at the beginning, so that the first look sets the timer for
// messages that are not due yet.
func (l listener) Listen(topic string) driver.Subscription {
	l.s.peers.Watch()
	rings, stop := l.s.wakes.add(topic)
	return &subscription{l.s, topic, rings, stop}
}

// Ring implements driver.Listener. Other processes ring all their topics.
func (l listener) Ring(topic string) {
	l.s.wakes.ringAt(topic, time.Time{})
	l.s.peers.Signal()
}

// Rings implements driver.Subscription.
func (l *subscription) Rings() <-chan struct{} { return l.rings }

// Close implements driver.Subscription.
func (l *subscription) Close() { l.stop() }

// wakes holds the consumers of this process that want rings.
type wakes struct {
	mu     sync.Mutex
	queues map[string]*watched
	closed bool
}

// watched is a queue that has consumers in wakes.
type watched struct {
	rings map[chan struct{}]struct{}
	timer *time.Timer // rings at due
	due   time.Time   // zero: the timer is not set
}

func newWakes() *wakes { return &wakes{queues: map[string]*watched{}} }

func (w *wakes) add(queue string) (<-chan struct{}, func()) {
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

// watches reports whether anybody watches the queue.
func (w *wakes) watches(queue string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queues[queue] != nil
}

// wakeAnyway is how late a ring may be where the wall clock decides what is due, after the clock was set forward or
// the machine slept. Timers don't know of either.
const wakeAnyway = 5 * time.Minute

// ringAt rings a queue at t. A ring that is set for an earlier time comes instead. Where t is far away it rings in
// between, and the consumer's look sets the timer again.
func (w *wakes) ringAt(queue string, t time.Time) {
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
	timer = time.AfterFunc(min(wait, wakeAnyway), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if q.timer == timer {
			q.disarm()
			q.ring()
		}
	})
	q.timer = timer
}

// all rings every queue.
func (w *wakes) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queues {
		q.ring()
	}
}

func (w *wakes) close() {
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

// publish rings consumers, here and in other processes, for what a commit has made receivable.
func (s *store) publish(list []due) {
	sent := false
	for _, d := range list {
		s.wakes.ringAt(d.queue, d.at)
		sent = sent || d.sent
	}
	if sent {
		s.peers.Signal()
	}
}

// announce notes that a queue has something to receive at that time.
func (w *tx) announce(queue string, at time.Time, sent bool) {
	if sent {
		w.s.peers.Announce()
	}
	for i := range w.rings {
		d := &w.rings[i]
		if d.queue == queue {
			d.sent = d.sent || sent
			if at.Before(d.at) {
				d.at = at
			}
			return
		}
	}
	w.rings = append(w.rings, due{queue, at, sent})
}
