package redis

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// A listener implements driver.Listener.
type listener struct{ s *store }

// Listen implements driver.Listener. It rings once at the beginning, and once more when the server has confirmed the
// subscription, so that nothing is missed in between.
func (l listener) Listen(topic string) driver.Subscription {
	rings, stop := l.s.rings.Add(topic)
	x := &subscription{rings: rings, stop: stop}
	e := l.s.ear
	if e == nil {
		return x
	}
	channel := e.s.e.Key(ringChannel + topic)
	ctx, cancel := context.WithTimeout(e.ctx, openLimit)
	wanted := make(chan struct{})
	go func() {
		defer close(wanted)
		defer cancel()
		e.listen(ctx, channel)
		l.s.rings.At(topic, time.Time{})
	}()
	x.stop = func() {
		stop()
		cancel()
		go func() {
			<-wanted
			e.leave(channel)
		}()
	}
	return x
}

// Ring implements driver.Listener.
func (l listener) Ring(topic string) {
	if l.s.ear == nil {
		l.s.rings.At(topic, time.Time{})
		return
	}
	l.s.ear.ringSoon(topic)
}

// rang rings this process's consumers for what it has sent, where no connection brings the rings of the server.
func (s *store) rang(queue string, delay time.Duration) {
	if s.ear == nil {
		s.rings.At(queue, time.Now().Add(delay))
	}
}

// A subscription implements driver.Subscription.
type subscription struct {
	rings <-chan struct{}
	once  sync.Once
	stop  func()
}

// Rings implements driver.Subscription.
func (x *subscription) Rings() <-chan struct{} { return x.rings }

// Claim implements driver.Subscription: nothing is claimed as it is sent, because a claim is one call anyway.
func (x *subscription) Claim(int, time.Duration) (<-chan struct{}, func(context.Context) ([]driver.Delivery, time.Time)) {
	return nil, nil
}

// Close implements driver.Subscription.
func (x *subscription) Close() { x.once.Do(x.stop) }
