package lanes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// patience is how long a lane has more messages than are asked for before that counts as a backlog.
const patience = 200 * time.Millisecond

const moveTime = 10 * time.Second // for the messages of one look

// judge counts the messages of tenants, and returns those that stay and those that are to be moved to the sideline. A
// message is moved at most once, before anybody has had it, and only if nobody may want to cancel it.
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
		if m.Tenant != "" && !m.Delayed && d.Deliveries == 1 && q.crowd.noisy(ctx, keyOf(m.Tenant)) {
			off = append(off, d)
		} else {
			stay = append(stay, d)
		}
	}
	return stay, off
}

// move sends messages into the sideline and deletes them from their lane, as one unit of work where the store can. If
// that fails they come back to their lane when the visibility ends. It ends well before that.
func (r *reply) move(ctx context.Context, q *queue, off []driver.Delivery, visibility time.Duration) {
	l := r.lane
	ctx, cancel := context.WithDeadline(ctx, r.began.Add(min(visibility*2/3, moveTime))) // meanwhile the lane waits
	defer cancel()
	var w storage.Work
	for _, d := range off {
		w.Send = append(w.Send, storage.Send{Queue: q.sideline().name, Message: storage.Message{Body: d.Body}})
		w.Delete = append(w.Delete, storage.Claim{Queue: l.name, Receipt: d.Receipt})
	}
	_, _ = q.inner.Commit(ctx, w)
	q.heat(q.sideline())
	q.heat(l)
	q.mu.Lock()
	l.moving = false
	q.mu.Unlock()
	q.bell.ring()
}

// A stash holds messages that came while a lane was swept and that nobody had asked for. They are received first.
type stash struct {
	mu   sync.Mutex
	list []stashed
}

type stashed struct {
	lane *lane
	d    driver.Delivery // with the receipt of the inner store
}

func (s *stash) add(some ...stashed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, some...)
}

// pop takes a message out, the oldest one that the limit allows.
func (s *stash) pop(limit *limit) (x stashed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(x stashed) bool { return limit.allows(x.lane.turns) })
	if i < 0 {
		return stashed{}, false
	}
	x = s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	return x, true
}

// popAll takes all messages out.
func (s *stash) popAll() []stashed {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.list
	s.list = nil
	return all
}

// takeStashed takes messages of the stash, whose visibility begins anew. One whose receipt is dead comes back to its
// lane by itself.
func (r *reception) takeStashed(ctx context.Context) {
	for len(r.got) < r.most {
		x, ok := r.q.stash.pop(&r.limit)
		if !ok {
			return
		}
		began := time.Now()
		next, err := x.lane.q.Extend(ctx, x.d.Receipt, r.visibility)
		switch {
		case errors.Is(err, storage.ErrReceiptStale):
			continue
		case err != nil:
			r.q.stash.add(x) // a later look tries again
			return
		}
		x.d.Receipt = next
		r.take(x, began)
	}
}

// giveBack hands back all that waits, as far as the store answers in time.
func (s *stash) giveBack() {
	some := s.popAll()
	if len(some) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, x := range some {
		_, _ = x.lane.q.Extend(ctx, x.d.Receipt, 0)
	}
}
