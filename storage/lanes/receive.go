package lanes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	coldEvery   = 100 * time.Millisecond // one cold lane is looked at so often while others have messages
	formerLooks = 8                      // one look at cold lanes in so many goes to a lane that nothing is sent to
)

// Receive implements driver.Queue: it takes messages from the lanes in fair turns. Where requests are not billed, it
// returns nothing only if no lane has anything.
func (q *queue) Receive(ctx context.Context, most int, visibility time.Duration) ([]driver.Delivery, error) {
	r := &reception{q: q, most: most, visibility: visibility, limit: limitOf(ctx), asked: map[*lane]bool{}}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	r.takeStashed(ctx)
	if r.rounds(ctx, q.suspect) && len(r.got) == 0 && r.failed == nil && !q.props.Billed {
		r.rounds(ctx, q.suspectAll)
	}
	if r.failed != nil && !r.works(ctx) {
		return nil, r.failed
	}
	return r.got, nil
}

// A reception is a call of Receive.
type reception struct {
	q          *queue
	most       int
	visibility time.Duration
	limit      limit
	asked      map[*lane]bool // that have brought less than they were asked for
	got        []driver.Delivery
	answered   bool    // a lane has answered
	failures   []*lane // have failed
	failed     error   // by this, the last one
}

// rounds asks lanes until there are enough messages or no lane has more. suspect says which lanes take part besides
// those that have rung, within the limit; rounds returns what it does: that it left lanes out.
func (r *reception) rounds(ctx context.Context, suspect func(time.Time, *limit) bool) (partly bool) {
	q := r.q
	for first := true; len(r.got) < r.most; first = false {
		q.mu.Lock()
		now := time.Now()
		q.expire(now)
		if first {
			partly = suspect(now, &r.limit)
		}
		asks := q.plan(r.most-len(r.got), r.asked, r.limit)
		q.mu.Unlock()
		if len(asks) == 0 {
			break
		}
		var more []stashed
		for _, x := range r.send(ctx, asks) {
			if x.err != nil || x.swept || len(x.ds) < x.wanted {
				r.asked[x.lane] = true
			}
			if x.err != nil {
				r.failures, r.failed = append(r.failures, x.lane), fmt.Errorf("lane %s: %w", x.lane.name, x.err)
				continue
			}
			r.answered = true
			for i, d := range r.accept(ctx, &x) {
				if i < x.n {
					r.take(d, x.began)
				} else {
					more = append(more, d)
				}
			}
		}
		for _, x := range more {
			if len(r.got) < r.most && r.limit.allows(x.lane.turns) {
				r.take(x, now)
			} else {
				q.stash.keep(x)
			}
		}
	}
	return partly
}

// plan divides places among the lanes that may have messages and weren't asked yet. q.mu is held.
func (q *queue) plan(places int, asked map[*lane]bool, limit limit) []ask {
	var from []*lane
	for _, l := range q.lanes {
		if l.hot && l.broken.tries == 0 && !asked[l] && !(l.sweeping && l.moving) {
			from = append(from, l)
		}
	}
	return slices.DeleteFunc(q.turn.divide(places, from, limit), func(a ask) bool { return a.n == 0 })
}

// suspect lets lanes take part that nothing has rung for: a message may have come without a ring. While others have
// messages, that is one lane now and then. Else it is one lane where requests are billed, and all lanes where they
// aren't. It reports that some stay out. q.mu is held.
func (q *queue) suspect(now time.Time, limit *limit) (partly bool) {
	every := coldEvery
	if q.props.Billed {
		every = q.props.PollInterval
	}
	busy := slices.ContainsFunc(q.lanes, func(l *lane) bool { return l.hot && l.broken.tries == 0 && limit.allows(l.turns) })
	switch {
	case !busy && !q.props.Billed:
		return q.suspectAll(now, limit)
	case busy && now.Sub(q.turn.looked) < every:
		return true
	}
	q.turn.looked = now
	if l := q.turn.nextCold(limit); l != nil {
		l.hot = true
	}
	return true
}

// suspectAll lets all lanes take part that the limit allows. q.mu is held.
func (q *queue) suspectAll(now time.Time, limit *limit) (partly bool) {
	q.turn.looked = now
	for _, l := range q.lanes {
		l.hot = l.hot || limit.allows(l.turns)
	}
	return false
}

// A reply is what a lane has brought.
type reply struct {
	ask
	ds     []driver.Delivery
	wanted int  // of the lane, which is more than ask.n while it is swept
	swept  bool // messages are moved from it
	err    error
	began  time.Time
}

// send asks the lanes at the same time. SQLite makes one transaction of that.
func (r *reception) send(ctx context.Context, asks []ask) []reply {
	q := r.q
	replies := make([]reply, len(asks))
	q.mu.Lock()
	for i, a := range asks {
		replies[i] = reply{ask: a, wanted: a.n, swept: a.lane.sweeping, began: time.Now()}
		if a.lane.sweeping {
			a.lane.moving = true
			replies[i].wanted = q.sweeps(a.n, r.visibility)
		}
	}
	q.mu.Unlock()
	do := func(x *reply) { x.ds, x.err = x.lane.q.Receive(ctx, x.wanted, r.visibility) }
	if len(asks) == 1 {
		do(&replies[0])
	} else {
		done := make(chan struct{}, len(replies))
		for i := range replies {
			go func() {
				do(&replies[i])
				done <- struct{}{}
			}()
		}
		for range replies {
			<-done
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range replies {
		replies[i].cool(q.rings)
	}
	return replies
}

// sweeps is how many messages are taken from a lane that is swept, where n are asked for. Those that stay wait in the
// stash until they are received. So they are no more than what ends within a third of the visibility. q.mu is held.
func (q *queue) sweeps(n int, visibility time.Duration) int {
	soon := float64(len(q.hand.entries)+n) * visibility.Seconds() / 3 / max(q.turn.guess, leastTime)
	return max(n, int(min(soon, float64(q.props.MaxReceive))))
}

// cool notes whether a lane may have more. rings says that the store rings. The mutex of the queue is held.
func (r *reply) cool(rings bool) {
	l := r.lane
	full := len(r.ds) >= r.wanted
	if r.err != nil {
		if r.swept {
			l.moving = false
		}
		l.hot = !errors.Is(r.err, driver.ErrUnsupported)
		return
	}
	switch {
	case !full:
		l.fullFrom = time.Time{}
	case l.fullFrom.IsZero():
		l.fullFrom = r.began
	}
	// A store that doesn't ring may bring fewer than it has.
	l.hot = full || l.signs != r.signs || len(r.ds) > 0 && !rings
}

// accept takes what a lane has brought. It returns what stays in the lane, and begins to move the rest.
func (r *reception) accept(ctx context.Context, x *reply) (stay []stashed) {
	q := r.q
	var off []driver.Delivery
	ds := x.ds
	if q.division.Lanes > 0 && len(ds) > 0 {
		ds, off = x.judge(ctx, q)
	}
	for _, d := range ds {
		stay = append(stay, stashed{x.lane, d, x.began.Add(r.visibility / 2)})
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(off) > 0:
		x.lane.sweeping, x.lane.moving = true, true
		q.moves.Go(func() { x.move(context.WithoutCancel(ctx), q, off, r.visibility) })
	case x.swept:
		x.lane.sweeping, x.lane.moving = false, false
	}
	return stay
}
