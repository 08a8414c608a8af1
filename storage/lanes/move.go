package lanes

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// patience is how long a lane has more messages than are asked for before that counts as a backlog.
const patience = 200 * time.Millisecond

const moveTime = 10 * time.Second // for the messages of one look

// judge counts the messages of tenants, and returns those that stay and those that are to be moved to a slow lane. A
// message is moved at most once, before anybody has had it, and only if nobody may want to cancel it. A crash between
// the two halves of a move leaves two copies. So a message whose body is a blob stays where the store isn't atomic: the
// copy that is handled first deletes the body, and the other one would be poison.
func (r *reply) judge(ctx context.Context, q *queue) (stay, off []driver.Delivery) {
	q.mu.Lock()
	backlog := !r.lane.fullFrom.IsZero() && r.began.Sub(r.lane.fullFrom) >= patience
	q.mu.Unlock()
	ds := r.ds
	marks := make([]Mark, len(ds))
	var busy []key
	for i := range ds {
		marks[i] = q.read(ds[i].Body)
		if t := marks[i].Tenant; t != "" {
			if k := keyOf(t); q.crowd.count(k, r.began) && backlog && !slices.Contains(busy, k) {
				busy = append(busy, k)
			}
		}
	}
	if len(busy) > 0 {
		q.crowd.report(ctx, busy)
	}
	if r.lane.turns.aside {
		return ds, nil
	}
	for i, d := range ds {
		m := marks[i]
		stays := m.Tenant == "" || m.Delayed || m.Apart && !q.inner.Atomic()
		if !stays && d.Deliveries == 1 && q.slowLane(keyOf(m.Tenant)) != nil {
			off = append(off, d)
		} else {
			stay = append(stay, d)
		}
	}
	return stay, off
}

// move sends messages into the slow lanes of their tenants and deletes them from their lane, as one unit of work where
// the store can. If that fails they come back to their lane when the visibility ends. It ends well before that.
func (r *reply) move(ctx context.Context, q *queue, off []driver.Delivery, visibility time.Duration) {
	l := r.lane
	ctx, cancel := context.WithDeadline(ctx, r.began.Add(min(visibility*2/3, moveTime))) // meanwhile the lane waits
	defer cancel()
	var w storage.Work
	to := map[*lane]bool{}
	for _, d := range off {
		side := q.slowLane(keyOf(q.read(d.Body).Tenant))
		if side == nil {
			continue // the tenant is quiet since just now: the message comes back to its lane
		}
		to[side] = true
		w.Send = append(w.Send, storage.Send{Queue: side.name, Message: storage.Message{Body: d.Body}})
		w.Delete = append(w.Delete, storage.Claim{Queue: l.name, Receipt: d.Receipt})
	}
	_, _ = q.inner.Commit(ctx, w)
	for side := range to {
		q.heat(side)
	}
	q.heat(l)
	q.mu.Lock()
	l.moving = false
	q.mu.Unlock()
	q.bell.ring()
}
