package lanes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// queue is a queue that has lanes. It implements driver.Queue.
type queue struct {
	name    string
	inner   *storage.Store
	lanes   []*lane // the last ones are the slow lanes
	placer  *placer
	roster  *roster
	stash   *stash
	mover   *mover
	retrier *retrier
	bell    *bell
}

func newQueue(inner *storage.Store, name string, x Queue, cfg Config) *queue {
	unhad := cfg.Unhad
	if unhad == nil {
		unhad = func(driver.Delivery) ([]byte, time.Duration, bool) { return nil, 0, false }
	}
	d := inner.Driver()
	q := &queue{name: name, inner: inner, lanes: newLanes(d, name, x), bell: new(bell)}
	q.placer = &placer{division: x, lanes: q.lanes, read: cfg.Read, noisy: newNoisyTenants(inner.Blobs(container), name)}
	q.roster = newRoster(q.lanes, d.Props(), d.Listener() != nil)
	q.stash = &stash{roster: q.roster, unhad: unhad}
	q.mover = &mover{inner: inner, placer: q.placer, roster: q.roster, bell: q.bell}
	q.retrier = &retrier{roster: q.roster, stash: q.stash, bell: q.bell}
	return q
}

// close hands back what waits to be received, once nothing is moved or asked any more.
func (q *queue) close() {
	q.mover.moves.Wait()
	q.retrier.calls.Wait()
	q.placer.noisy.close()
	q.stash.empty()
}

// Send implements driver.Queue.
func (q *queue) Send(ctx context.Context, messages []driver.Message) error {
	by := map[*lane][]driver.Message{}
	for _, m := range messages {
		l := q.placer.place(m.Body)
		by[l] = append(by[l], m)
	}
	var err error
	switch {
	case len(by) == 1:
		for l, ms := range by {
			err = l.q.Send(ctx, ms)
		}
	case q.inner.Atomic(): // all or none
		var w storage.Work
		for l, ms := range by {
			for _, m := range ms {
				w.Send = append(w.Send, storage.Send{Queue: l.name, Message: m})
			}
		}
		_, err = q.inner.Commit(ctx, w)
	default:
		err = each(by, func(l *lane, ms []driver.Message) error { return l.q.Send(ctx, ms) })
	}
	for l := range by {
		q.roster.heat(l)
	}
	return bare(err)
}

// bare returns an error of the inner store without its operation and resource, which name a lane. Package storage gives
// it those of the queue.
func bare(err error) error {
	var whole *storage.Error
	if errors.As(err, &whole) {
		return whole.Err
	}
	return err
}

// each calls f for all lanes at the same time, and returns the first error.
func each[T any](by map[*lane]T, f func(*lane, T) error) error {
	if len(by) == 1 {
		for l, x := range by {
			return f(l, x)
		}
	}
	errs := make(chan error, len(by))
	for l, x := range by {
		go func() { errs <- f(l, x) }()
	}
	var first error
	for range by {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// Extend implements driver.Queue.
func (q *queue) Extend(ctx context.Context, r driver.Receipt, visibility time.Duration) (driver.Receipt, error) {
	l, inner := split(q.lanes, r)
	next, err := l.q.Extend(ctx, inner, visibility)
	switch {
	case errors.Is(err, driver.ErrReceiptStale):
		q.roster.end(r)
		return "", err
	case err != nil:
		return "", err
	case visibility == 0:
		q.roster.end(r)
		q.roster.heat(l)
	default:
		q.roster.extended(r, l.receipt(next), visibility)
	}
	return l.receipt(next), nil
}

// Rewrite implements driver.Queue. The message stays in its lane.
func (q *queue) Rewrite(ctx context.Context, r driver.Receipt, body []byte, delay time.Duration) error {
	l, inner := split(q.lanes, r)
	err := l.q.Rewrite(ctx, inner, body, delay)
	q.roster.end(r)
	if err == nil && delay == 0 {
		q.roster.heat(l)
	}
	return err
}

// Delete implements driver.Queue.
func (q *queue) Delete(ctx context.Context, rs []driver.Receipt) error {
	by := map[*lane][]driver.Receipt{}
	given := make(map[driver.Claim]driver.Receipt, len(rs))
	claims := make([]driver.Claim, len(rs))
	for i, r := range rs {
		l, inner := split(q.lanes, r)
		by[l] = append(by[l], inner)
		claims[i] = driver.Claim{Queue: l.name, Receipt: inner}
		given[claims[i]] = r
	}
	q.roster.end(rs...)
	var dead []driver.Claim
	var err error
	if len(by) > 1 && q.inner.Atomic() { // one transaction is faster than one for each lane
		var done driver.Committed
		done, err = q.inner.Commit(ctx, driver.Work{Delete: claims})
		dead, err = done.Stale, bare(err)
	} else {
		dead, err = deleteEach(ctx, by)
	}
	if err != nil || len(dead) == 0 {
		return err
	}
	stale := &driver.StaleError{Queue: q.name}
	for _, c := range dead {
		stale.Receipts = append(stale.Receipts, given[c])
	}
	return stale
}

// deleteEach deletes messages lane by lane, and returns those whose receipts are dead.
func deleteEach(ctx context.Context, by map[*lane][]driver.Receipt) (dead []driver.Claim, err error) {
	var mu sync.Mutex
	err = each(by, func(l *lane, rs []driver.Receipt) error {
		err := l.q.Delete(ctx, rs)
		var stale *driver.StaleError
		if !errors.As(err, &stale) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range stale.Receipts {
			dead = append(dead, driver.Claim{Queue: l.name, Receipt: r})
		}
		return nil
	})
	return dead, err
}

// Stats implements driver.Queue. It counts all lanes.
func (q *queue) Stats(ctx context.Context) (driver.Stats, error) {
	now := time.Now()
	by, all := q.roster.toCount(now)
	var mu sync.Mutex
	var sum driver.Stats
	counted := map[*lane]bool{}
	err := each(by, func(l *lane, _ struct{}) error {
		st, err := l.q.Stats(ctx)
		if err != nil {
			return fmt.Errorf("lane %s: %w", l.name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		sum = plus(sum, st)
		counted[l] = max(st.Ready, 0)+max(st.InFlight, 0)+max(st.Delayed, 0) > 0
		return nil
	})
	if err != nil {
		return driver.Stats{}, err
	}
	if all {
		q.roster.counted(counted, now)
	}
	return sum, nil
}

// plus adds the stats of a lane. A number that one lane can't tell, the queue can't tell either.
func plus(a, b driver.Stats) driver.Stats {
	add := func(x, y int64) int64 {
		if x < 0 || y < 0 {
			return -1
		}
		return x + y
	}
	oldest := max(a.Oldest, b.Oldest)
	if a.Oldest < 0 || b.Oldest < 0 {
		oldest = -1
	}
	return driver.Stats{Ready: add(a.Ready, b.Ready), InFlight: add(a.InFlight, b.InFlight), Delayed: add(a.Delayed, b.Delayed), Oldest: oldest}
}
