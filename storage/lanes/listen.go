package lanes

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// listener implements driver.Listener. Topics stay as they are; only rings come from all lanes.
type listener struct {
	driver.Listener
	s *store
}

// Listen implements driver.Listener.
func (x *listener) Listen(topic string) driver.Subscription {
	q := x.s.queues[topic]
	if q == nil {
		return x.Listener.Listen(topic)
	}
	sub := &subscription{q: q, rings: make(chan struct{}, 1), closed: make(chan struct{})}
	q.bell.add(sub.rings)
	for _, l := range q.lanes {
		inner := x.Listener.Listen(l.name)
		sub.inner = append(sub.inner, inner)
		sub.all.Go(func() {
			for {
				select {
				case <-inner.Rings():
					q.roster.heat(l)
					ring(sub.rings)
				case <-sub.closed:
					return
				}
			}
		})
	}
	return sub
}

// subscription implements driver.Subscription: it rings when any lane does.
type subscription struct {
	q      *queue
	inner  []driver.Subscription
	rings  chan struct{}
	closed chan struct{}
	once   sync.Once
	all    sync.WaitGroup
}

func (x *subscription) Rings() <-chan struct{} { return x.rings }

// Claim implements driver.Subscription. A message that is handed over as it is sent would jump its turn, so none is.
func (x *subscription) Claim(int, time.Duration) (<-chan struct{}, func(context.Context) ([]driver.Delivery, time.Time)) {
	return nil, nil
}

// Close implements driver.Subscription. Messages in the stash are handed back.
func (x *subscription) Close() {
	x.once.Do(func() {
		close(x.closed)
		for _, s := range x.inner {
			s.Close()
		}
		x.all.Wait()
		if x.q.bell.remove(x.rings) {
			x.q.stash.empty()
		}
	})
}
