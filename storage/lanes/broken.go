package lanes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage/driver"
)

const (
	firstRetry = 100 * time.Millisecond // after a lane has failed, doubled each time
	lastRetry  = 10 * time.Second
	retryTime  = 10 * time.Second // for the call
)

// broken is the trouble of a lane that fails while another one answers. The others go on without it. One call at a
// time asks it for one message, and nobody waits for that call.
type broken struct {
	tries  int // that failed in a row; 0: the lane works
	again  time.Time
	asking bool
}

// begin asks lanes that have failed, beside the others. It returns what such a lane failed by, once for each try, and
// then nothing was received.
func (r *reception) begin(ctx context.Context) error {
	q := r.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.untold; err != nil {
		q.untold = nil
		return err
	}
	works := func(l *lane) bool { return l.broken.tries == 0 }
	if !slices.ContainsFunc(q.turn.current.lanes, works) { // nothing goes on without them
		for _, l := range q.lanes {
			l.broken.tries = 0
		}
		return nil
	}
	now := time.Now()
	for _, l := range q.lanes {
		if b := &l.broken; b.tries > 0 && !b.asking && !now.Before(b.again) && r.limit.allows(l.turns) {
			b.asking = true
			q.moves.Go(func() { l.retry(context.WithoutCancel(ctx), q, r.visibility) })
		}
	}
	return nil
}

// works reports that the store answers, and that only some lanes fail. Then the others go on at once. Where no other
// lane may be asked, they are taken to work.
func (r *reception) works(ctx context.Context) bool {
	q := r.q
	if !r.answered && len(r.got) == 0 && r.askAnother() {
		r.rounds(ctx, func(time.Time, *limit) bool { return true })
	}
	if !r.answered && len(r.got) == 0 && r.limit.left > 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range r.failures {
		l.fails(q, r.failed)
	}
	return true
}

// askAnother lets a lane take part that wasn't asked, so that its answer tells whether the store works. It returns
// false if there is none.
func (r *reception) askAnother() bool {
	q := r.q
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.turn.current.lanes {
		if !r.asked[l] && l.broken.tries == 0 && r.limit.allows(l.turns) {
			l.hot = true
			return true
		}
	}
	return false
}

// fails notes that a lane has failed. q.mu is held.
func (l *lane) fails(q *queue, err error) {
	wait := storecall.Doubled(firstRetry, lastRetry, l.broken.tries)
	l.broken = broken{tries: l.broken.tries + 1, again: time.Now().Add(wait)}
	q.untold = fmt.Errorf("%w: %w", driver.ErrPartial, err)
	time.AfterFunc(wait, q.bell.ring) // somebody looks again then
}

// retry asks a lane that has failed.
func (l *lane) retry(ctx context.Context, q *queue, visibility time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, min(visibility/2, retryTime))
	defer cancel()
	began := time.Now()
	ds, err := l.q.Receive(ctx, 1, visibility)
	for _, d := range ds {
		q.stash.keep(stashed{l, d, began.Add(visibility / 2)})
	}
	q.mu.Lock()
	if err != nil {
		l.fails(q, fmt.Errorf("lane %s: %w", l.name, err))
	} else {
		l.broken, l.hot = broken{}, true
	}
	q.mu.Unlock()
	q.bell.ring()
}
