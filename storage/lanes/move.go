package lanes

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

const moveTime = 10 * time.Second // for the messages of one look

// mover moves messages of noisy tenants into the slow lanes.
type mover struct {
	inner  *storage.Store
	placer *placer
	roster *roster
	bell   *bell
	moves  sync.WaitGroup
}

// staying returns what stays in a lane of what the lane has brought. It begins to move the rest.
func (m *mover) staying(ctx context.Context, x *reply, visibility time.Duration) []driver.Delivery {
	stay, off := x.ds, []driver.Delivery(nil)
	if m.placer.division.Lanes > 0 && len(x.ds) > 0 {
		stay, off = m.judge(ctx, x)
	}
	switch {
	case len(off) > 0:
		m.roster.sweep(x.lane, true)
		till := x.began.Add(min(visibility*2/3, moveTime)) // meanwhile the lane waits
		m.moves.Go(func() { m.move(context.WithoutCancel(ctx), x.lane, off, till) })
	case x.swept:
		m.roster.sweep(x.lane, false)
	}
	return stay
}

// judge counts the messages of tenants, and returns those that stay and those that are to be moved to a slow lane. A
// message is moved at most once, before anybody has had it, and only if nobody may want to cancel it. A crash between
// the two halves of a move leaves two copies. So a message whose body is a blob stays where the store isn't atomic: the
// copy that is handled first deletes the body, and the other one would be poison.
func (m *mover) judge(ctx context.Context, x *reply) (stay, off []driver.Delivery) {
	backlog, noisy := m.roster.hasBacklog(x.lane, x.began), m.placer.noisy
	marks := make([]Mark, len(x.ds))
	var busy []key
	for i := range x.ds {
		marks[i] = m.placer.read(x.ds[i].Body)
		if t := marks[i].Tenant; t != "" {
			if k := keyOf(t); noisy.count(k, x.began) && backlog && !slices.Contains(busy, k) {
				busy = append(busy, k)
			}
		}
	}
	if len(busy) > 0 {
		noisy.report(ctx, busy)
	}
	if x.lane.turns.aside {
		return x.ds, nil
	}
	for i, d := range x.ds {
		mark := marks[i]
		stays := mark.Tenant == "" || mark.Delayed || mark.Apart && !m.inner.Atomic()
		if !stays && d.Deliveries == 1 && m.placer.slow(keyOf(mark.Tenant)) != nil {
			off = append(off, d)
		} else {
			stay = append(stay, d)
		}
	}
	return stay, off
}

// move sends messages into the slow lanes of their tenants and deletes them from their lane, as one unit of work where
// the store can. If that fails they come back to their lane when the visibility ends. It ends well before that.
func (m *mover) move(ctx context.Context, l *lane, off []driver.Delivery, till time.Time) {
	ctx, cancel := context.WithDeadline(ctx, till)
	defer cancel()
	var w storage.Work
	to := map[*lane]bool{}
	for _, d := range off {
		side := m.placer.slow(keyOf(m.placer.read(d.Body).Tenant))
		if side == nil {
			continue // the tenant is quiet since just now: the message comes back to its lane
		}
		to[side] = true
		w.Send = append(w.Send, storage.Send{Queue: side.name, Message: storage.Message{Body: d.Body}})
		w.Delete = append(w.Delete, storage.Claim{Queue: l.name, Receipt: d.Receipt})
	}
	_, _ = m.inner.Commit(ctx, w)
	for side := range to {
		m.roster.heat(side)
	}
	m.roster.heat(l)
	m.roster.moved(l)
	m.bell.ring()
}
