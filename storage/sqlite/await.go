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
//	waiting ──choose──▶ chosen ──promise──▶ promised ──commit, rollback──▶ over
//	   ▲  │                │                                                ▲ ▲
//	   │  │                ├─rollback, left─────────────────────────────────┘ │
//	   │  └────leave───────┼──────────────────────────────────────────────────┘
//	   └───────rollback────┘
//
// While it waits it is in awaits; from then on it is the writer's, but for what it has got once that is promised: the caller reads it
// while the disk writes.
type await struct {
	want
	since  time.Time
	left   bool          // the caller is gone, or waits for the promise
	told   chan struct{} // closed: promised or over
	over   chan struct{} // closed: nothing changes any more
	undone bool          // what was promised was not committed
}

// awaits are those that wait, by queue.
type awaits struct {
	mu     sync.Mutex
	queues map[string][]*await
}

// Await implements storage.Awaiter.
func (q *queue) Await(max int, visibility time.Duration) (<-chan struct{}, func(context.Context) storage.Handed) {
	a := &await{want: want{max: min(max, maxReceive), visibility: visibility}, told: make(chan struct{}), over: make(chan struct{})}
	if q.invalid != nil || storage.CheckReceive(max, visibility) != nil {
		return a.told, func(context.Context) storage.Handed { return storage.Handed{} }
	}
	q.s.awaits.add(q.name, a)
	return a.told, func(ctx context.Context) storage.Handed {
		q.s.awaits.leave(q.name, a)
		select {
		case <-a.told:
		default:
			select {
			case <-a.told:
			case <-ctx.Done():
				return storage.Handed{}
			}
		}
		if len(a.got) == 0 {
			return storage.Handed{}
		}
		q.s.count("receive", "queue", q.name)
		return storage.Handed{Deliveries: a.got, Since: a.since, Over: a.over, Committed: func() bool { return !a.undone }}
	}
}

func (x *awaits) add(queue string, a *await) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queues[queue] = append(x.queues[queue], a)
}

// leave ends an await: at once while it waits, else with the promise or the end of the transaction.
func (x *awaits) leave(queue string, a *await) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a.left = true
	if i := slices.Index(x.queues[queue], a); i >= 0 {
		x.queues[queue] = slices.Delete(x.queues[queue], i, i+1)
		a.end()
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

// promise tells those who were chosen what the commit that follows will bring them.
func (w *writer) promise() {
	for _, x := range w.chosen {
		if len(x.a.got) > 0 {
			close(x.a.told)
		}
	}
}

// settle ends the transaction for those who were chosen in it.
func (w *writer) settle(committed bool) {
	x := &w.s.awaits
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := len(w.chosen) - 1; i >= 0; i-- {
		queue, a := w.chosen[i].queue, w.chosen[i].a
		select {
		case <-a.told:
			a.undone = !committed
			close(a.over)
			continue
		default:
		}
		a.got, a.gen = nil, 0
		if a.left {
			a.end()
		} else {
			x.queues[queue] = slices.Insert(x.queues[queue], 0, a)
		}
	}
	clear(w.chosen)
	w.chosen = w.chosen[:0]
}

// end is for an await without a promise.
func (a *await) end() {
	close(a.told)
	close(a.over)
}
