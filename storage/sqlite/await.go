package sqlite

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// An await is a want that outlives transactions: a subscription's claim on messages that will be sent.
//
//	waiting --choose--> chosen --commit that brings some--> over
//	   ^  |                |                                 ^
//	   |  +-----leave------|---------------------------------+
//	   +-rollback, nothing-+------if its caller has left-----+
//
// While it waits it is in awaits. Once chosen it belongs to the writer, until the transaction ends.
type await struct {
	want
	since time.Time
	left  bool          // the caller has called take
	over  chan struct{} // closed when nothing changes any more
}

// awaits holds the awaits that wait, by queue.
type awaits struct {
	mu     sync.Mutex
	queues map[string][]*await
}

// Claim implements driver.Subscription.
func (l *subscription) Claim(max int, visibility time.Duration) (<-chan struct{}, func(context.Context) ([]driver.Delivery, time.Time)) {
	a := &await{want: want{max: max, visibility: visibility}, over: make(chan struct{})}
	l.s.awaits.add(l.topic, a)
	return a.over, func(ctx context.Context) ([]driver.Delivery, time.Time) {
		l.s.awaits.leave(l.topic, a)
		select {
		case <-a.over:
		default:
			select {
			case <-a.over:
			case <-ctx.Done():
				return nil, time.Time{}
			}
		}
		if len(a.got) > 0 {
			l.s.count("receive", "queue", l.topic)
		}
		return a.got, a.since
	}
}

func (x *awaits) add(queue string, a *await) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queues[queue] = append(x.queues[queue], a)
}

// leave ends an await: at once while it waits, otherwise with the end of the transaction.
func (x *awaits) leave(queue string, a *await) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a.left = true
	if i := slices.Index(x.queues[queue], a); i >= 0 {
		x.queues[queue] = slices.Delete(x.queues[queue], i, i+1)
		close(a.over)
	}
}

// choose makes the oldest await for a queue a want of the transaction.
func (l *wants) choose(queue string, now time.Time) *want {
	x := l.awaits
	x.mu.Lock()
	defer x.mu.Unlock()
	list := x.queues[queue]
	if len(list) == 0 {
		return nil
	}
	a := list[0]
	x.queues[queue] = slices.Delete(list, 0, 1)
	a.since = now
	l.chosen = append(l.chosen, chosen{queue, a})
	return &a.want
}

type chosen struct {
	queue string
	a     *await
}

// settle ends the transaction for the awaits that were chosen in it: they have the messages that it brought, or wait
// on.
func (l *wants) settle(committed bool) {
	x := l.awaits
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := len(l.chosen) - 1; i >= 0; i-- {
		queue, a := l.chosen[i].queue, l.chosen[i].a
		if !committed {
			a.got, a.gen = nil, 0
		}
		if a.left || len(a.got) > 0 {
			close(a.over)
		} else {
			x.queues[queue] = slices.Insert(x.queues[queue], 0, a)
		}
	}
	clear(l.chosen)
	l.chosen = l.chosen[:0]
}
