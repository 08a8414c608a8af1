package sqlite

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

var _ storage.Awaiter = (*queue)(nil)

// An await is a want that outlives transactions:
//
//	waiting ──choose──▶ chosen ──commit──▶ over
//	   ▲  │                │                ▲ ▲
//	   │  │                ├─rollback, left─┘ │
//	   │  └────leave───────┼──────────────────┘
//	   └───────rollback────┘
//
// While it waits it is in awaits; while it is chosen it is the writer's.
type await struct {
	want
	since time.Time
	left  bool          // the caller is gone, or waits for the end of the transaction
	over  chan struct{} // closed: nothing changes any more
}

// awaits are those that wait, by queue.
type awaits struct {
	mu     sync.Mutex
	queues map[string][]*await
}

// Await implements storage.Awaiter.
func (q *queue) Await(max int, visibility time.Duration) (<-chan struct{}, func(context.Context) storage.Handed) {
	a := &await{want: want{max: min(max, maxReceive), visibility: visibility}, over: make(chan struct{})}
	if q.invalid != nil || storage.CheckReceive(max, visibility) != nil {
		return a.over, func(context.Context) storage.Handed { return storage.Handed{} }
	}
	q.s.awaits.add(q.name, a)
	return a.over, func(ctx context.Context) storage.Handed {
		q.s.awaits.leave(q.name, a)
		select {
		case <-a.over:
		default:
			select {
			case <-a.over:
			case <-ctx.Done():
				return storage.Handed{}
			}
		}
		if len(a.got) > 0 {
			q.s.count("receive", "queue", q.name)
		}
		return storage.Handed{Deliveries: a.got, Since: a.since}
	}
}

func (x *awaits) add(queue string, a *await) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queues[queue] = append(x.queues[queue], a)
}

// leave ends an await: at once while it waits, else with the transaction.
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
func (w *writer) choose(queue string) *want {
	x := &w.s.awaits
	x.mu.Lock()
	defer x.mu.Unlock()
	list := x.queues[queue]
	if len(list) == 0 {
		return nil
	}
	a := list[0]
	x.queues[queue] = slices.Delete(list, 0, 1)
	a.since = w.now
	w.chosen = append(w.chosen, chosen{queue, a})
	return &a.want
}

type chosen struct {
	queue string
	a     *await
}

// settle ends the transaction for those who were chosen in it.
func (w *writer) settle(committed bool) {
	x := &w.s.awaits
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := len(w.chosen) - 1; i >= 0; i-- {
		queue, a := w.chosen[i].queue, w.chosen[i].a
		if !committed {
			a.got, a.gen = nil, 0
		}
		if len(a.got) > 0 || a.left {
			close(a.over)
		} else {
			x.queues[queue] = slices.Insert(x.queues[queue], 0, a)
		}
	}
	clear(w.chosen)
	w.chosen = w.chosen[:0]
}
