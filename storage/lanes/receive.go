package lanes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// Receive implements driver.Queue: it takes messages from the lanes in fair turns. Where requests are not billed, it
// returns nothing only if no lane has anything.
func (q *queue) Receive(ctx context.Context, most int, visibility time.Duration) ([]driver.Delivery, error) {
	r := &reception{
		roster: q.roster, stash: q.stash, mover: q.mover, retrier: q.retrier,
		most: most, visibility: visibility, limit: limitOf(ctx), asked: map[*lane]bool{},
	}
	if err := r.roster.tell(); err != nil { // once for each try of a lane that fails, and then nothing is received
		return nil, err
	}
	r.retrier.begin(ctx, &r.limit, visibility)
	r.takeStashed(ctx)
	if r.rounds(ctx, someCold) && len(r.got) == 0 && r.failed == nil && !r.roster.props.Billed {
		r.rounds(ctx, allCold)
	}
	switch {
	case r.failed == nil:
	case errors.Is(ctx.Err(), context.Canceled): // by the caller. No lane is to blame
		if len(r.got) == 0 {
			return nil, r.failed
		}
	case !r.works(ctx):
		return nil, r.failed
	}
	return r.got, nil
}

// A reception is a call of Receive.
type reception struct {
	roster  *roster
	stash   *stash
	mover   *mover
	retrier *retrier

	most       int
	visibility time.Duration
	limit      limit
	asked      map[*lane]bool // that have brought less than they were asked for
	got        []driver.Delivery
	answered   bool    // a lane has answered
	failures   []*lane // have failed
	failed     error   // by this, the last one
}

// rounds asks lanes until there are enough messages or no lane has more. looks says which lanes take part besides those
// that have rung, within the limit. rounds reports that it left lanes out.
func (r *reception) rounds(ctx context.Context, at looks) (partly bool) {
	for first := true; len(r.got) < r.most; first = false {
		if !first {
			at = noLooks
		}
		asks, left := r.roster.plan(at, r.most-len(r.got), r.asked, r.limit)
		partly = partly || left
		if len(asks) == 0 {
			break
		}
		now := time.Now()
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
			for i, d := range r.mover.staying(ctx, &x, r.visibility) {
				s := stashed{x.lane, d, x.began.Add(r.visibility / 2)}
				if i < x.n {
					r.take(s, x.began)
				} else {
					more = append(more, s)
				}
			}
		}
		for _, x := range more {
			if len(r.got) < r.most && r.limit.allows(x.lane.turns) {
				r.take(x, now)
			} else {
				r.stash.keep(x)
			}
		}
	}
	return partly
}

// send asks the lanes at the same time. SQLite makes one transaction of that.
func (r *reception) send(ctx context.Context, asks []ask) []reply {
	replies := r.roster.ask(asks, r.visibility)
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
	r.roster.answered(replies)
	return replies
}

// take notes a message that is received, as the caller gets it.
func (r *reception) take(x stashed, began time.Time) {
	d := x.d
	d.Receipt = x.lane.receipt(d.Receipt)
	r.roster.take(x.lane, d.Receipt, began, began.Add(r.visibility))
	r.limit.take(x.lane.turns)
	r.got = append(r.got, d)
}

// takeStashed takes messages of the stash, whose visibility begins anew. One whose receipt is dead comes back to its
// lane by itself.
func (r *reception) takeStashed(ctx context.Context) {
	for len(r.got) < r.most {
		x, ok := r.stash.pop(&r.limit)
		if !ok {
			return
		}
		began := time.Now()
		next, err := x.lane.q.Extend(ctx, x.d.Receipt, r.visibility)
		switch {
		case errors.Is(err, storage.ErrReceiptStale):
			continue
		case err != nil:
			r.stash.keep(x) // a later look tries again
			return
		}
		x.d.Receipt = next
		r.take(x, began)
	}
}

// works reports that the store answers, and that only some lanes fail. Then the others go on at once. Where no other
// lane may be asked, they are taken to work.
func (r *reception) works(ctx context.Context) bool {
	if !r.answered && len(r.got) == 0 && r.roster.askAnother(r.asked, &r.limit) {
		r.rounds(ctx, noLooks)
	}
	if !r.answered && len(r.got) == 0 && r.limit.left > 0 {
		return false
	}
	for _, l := range r.failures {
		r.retrier.fails(l, r.failed)
	}
	return true
}
