package sqlite

import (
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
	rings, stop := l.s.rings.Add(topic)
	return &subscription{l.s, topic, rings, stop}
}

// Ring implements driver.Listener. Other processes ring all their topics.
func (l listener) Ring(topic string) {
	l.s.rings.At(topic, time.Time{})
	l.s.peers.Signal()
}

// Rings implements driver.Subscription.
func (l *subscription) Rings() <-chan struct{} { return l.rings }

// Close implements driver.Subscription.
func (l *subscription) Close() { l.stop() }

// publish rings consumers, here and in other processes, for what a commit has made receivable.
func (s *store) publish(list []due) {
	sent := false
	for _, d := range list {
		s.rings.At(d.queue, d.at)
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
