package lanes

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage/driver"
)

const (
	coldEvery   = 100 * time.Millisecond // one cold lane is looked at so often while others have messages
	formerLooks = 8                      // one look at cold lanes in so many goes to a lane that nothing is sent to

	// patience is how long a lane has more messages than are asked for before that counts as a backlog.
	patience = 200 * time.Millisecond

	firstRetry = 100 * time.Millisecond // after a lane has failed, doubled each time
	lastRetry  = 10 * time.Second

	formerEvery = time.Minute // how often the lanes are counted that only a change of their number leaves messages in
)

// roster is what a process knows of the lanes of a queue: which of them may have messages, whose turn it is, and what
// was received and has not ended.
type roster struct {
	lanes []*lane
	props driver.Props
	rings bool // the inner store rings

	mu     sync.Mutex
	turn   turns
	hand   hand
	untold error // what a lane failed by, until a Receive has told it
}

func newRoster(lanes []*lane, props driver.Props, rings bool) *roster {
	return &roster{lanes: lanes, props: props, rings: rings, turn: newTurns(lanes), hand: hand{entries: map[driver.Receipt]entry{}}}
}

// heat notes a sign that a lane may have messages.
func (r *roster) heat(l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.hot = true
	l.signs++
}

// looks says which lanes that nothing has rung for take part in a round: a message may have come without a ring.
type looks int

const (
	noLooks looks = iota

	// someCold is one lane now and then while others have messages. Else it is one lane where requests are billed, and
	// all lanes where they aren't.
	someCold

	allCold
)

// plan divides places among the lanes that may have messages and weren't asked yet, within the limit. It reports that
// lanes stay out that may have some.
func (r *roster) plan(at looks, places int, asked map[*lane]bool, limit limit) (asks []ask, partly bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, receipt := range r.hand.expired(now) {
		r.ended(receipt, now)
	}
	switch at {
	case someCold:
		partly = r.suspect(now, &limit)
	case allCold:
		r.suspectAll(now, &limit)
	}
	var from []*lane
	for _, l := range r.lanes {
		if l.hot && l.broken.tries == 0 && !asked[l] && !(l.sweeping && l.moving) {
			from = append(from, l)
		}
	}
	return slices.DeleteFunc(r.turn.divide(places, from, limit), func(a ask) bool { return a.n == 0 }), partly
}

// suspect lets cold lanes take part by someCold. It reports that some stay out. r.mu is held.
func (r *roster) suspect(now time.Time, limit *limit) (partly bool) {
	every := coldEvery
	if r.props.Billed {
		every = r.props.PollInterval
	}
	busy := slices.ContainsFunc(r.lanes, func(l *lane) bool { return l.hot && l.broken.tries == 0 && limit.allows(l.turns) })
	switch {
	case !busy && !r.props.Billed:
		r.suspectAll(now, limit)
		return false
	case busy && now.Sub(r.turn.looked) < every:
		return true
	}
	r.turn.looked = now
	if l := r.turn.nextCold(limit); l != nil {
		l.hot = true
	}
	return true
}

// suspectAll lets all lanes take part that the limit allows. r.mu is held.
func (r *roster) suspectAll(now time.Time, limit *limit) {
	r.turn.looked = now
	for _, l := range r.lanes {
		l.hot = l.hot || limit.allows(l.turns)
	}
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

// ask begins to ask lanes. It returns their replies, which the caller fills.
func (r *roster) ask(asks []ask, visibility time.Duration) []reply {
	replies := make([]reply, len(asks))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range asks {
		replies[i] = reply{ask: a, wanted: a.n, swept: a.lane.sweeping, began: time.Now()}
		if a.lane.sweeping {
			a.lane.moving = true
			replies[i].wanted = r.sweeps(a.n, visibility)
		}
	}
	return replies
}

// sweeps is how many messages are taken from a lane that is swept, where n are asked for. Those that stay wait in the
// stash until they are received. So they are no more than what ends within a third of the visibility. r.mu is held.
func (r *roster) sweeps(n int, visibility time.Duration) int {
	soon := float64(len(r.hand.entries)+n) * visibility.Seconds() / 3 / max(r.turn.guess, leastTime)
	return max(n, int(min(soon, float64(r.props.MaxReceive))))
}

// answered notes which of the lanes that were asked may have more.
func (r *roster) answered(replies []reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range replies {
		r.cool(&replies[i])
	}
}

// cool notes whether a lane may have more. r.mu is held.
func (r *roster) cool(x *reply) {
	l := x.lane
	full := len(x.ds) >= x.wanted
	if x.err != nil {
		if x.swept {
			l.moving = false
		}
		l.hot = !errors.Is(x.err, driver.ErrUnsupported)
		return
	}
	switch {
	case !full:
		l.fullFrom = time.Time{}
	case l.fullFrom.IsZero():
		l.fullFrom = x.began
	}
	// A store that doesn't ring may bring fewer than it has.
	l.hot = full || l.signs != x.signs || len(x.ds) > 0 && !r.rings
}

// hasBacklog reports that a lane has had more messages than were asked for, until a look that began then.
func (r *roster) hasBacklog(l *lane, then time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !l.fullFrom.IsZero() && then.Sub(l.fullFrom) >= patience
}

// sweep notes that messages of a lane are being moved, or that a lane that was swept has none to be moved.
func (r *roster) sweep(l *lane, moves bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.sweeping, l.moving = moves, moves
}

// moved notes that messages of a lane are no longer being moved.
func (r *roster) moved(l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.moving = false
}

// take notes a message that is received.
func (r *roster) take(l *lane, receipt driver.Receipt, since, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hand.entries[receipt] = entry{lane: l, since: since, until: until}
	r.turn.begin(l)
}

// end notes the end of messages: their lanes pay for the time that they took.
func (r *roster) end(receipts ...driver.Receipt) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, receipt := range receipts {
		r.ended(receipt, now)
	}
}

// ended is end for one message. r.mu is held.
func (r *roster) ended(receipt driver.Receipt, now time.Time) {
	if l, took, ok := r.hand.end(receipt, now); ok {
		r.turn.end(l, took)
	}
}

// extended notes the new receipt of a message.
func (r *roster) extended(old, next driver.Receipt, visibility time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hand.extended(old, next, time.Now().Add(visibility))
}

// failed notes that a lane has failed. It returns after how long the lane is asked again.
func (r *roster) failed(l *lane, err error) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = storecall.Doubled(firstRetry, lastRetry, l.broken.tries)
	l.broken = broken{tries: l.broken.tries + 1, again: time.Now().Add(wait)}
	r.untold = fmt.Errorf("%w: %w", driver.ErrPartial, err)
	return wait
}

// works notes that a lane that has failed works again.
func (r *roster) works(l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.broken, l.hot = broken{}, true
}

// retries returns the lanes that have failed and are to be asked again: the caller asks them. Without a lane that works
// it returns none, because nothing goes on without them: all take part again.
func (r *roster) retries(limit *limit) (again []*lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	works := func(l *lane) bool { return l.broken.tries == 0 }
	if !slices.ContainsFunc(r.turn.current.lanes, works) {
		for _, l := range r.lanes {
			l.broken.tries = 0
		}
		return nil
	}
	now := time.Now()
	for _, l := range r.lanes {
		if b := &l.broken; b.tries > 0 && !b.asking && !now.Before(b.again) && limit.allows(l.turns) {
			b.asking = true
			again = append(again, l)
		}
	}
	return again
}

// tell returns what a lane failed by, once for each try.
func (r *roster) tell() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.untold
	r.untold = nil
	return err
}

// askAnother lets a lane take part that wasn't asked, so that its answer tells whether the store works. It returns
// false if there is none.
func (r *roster) askAnother(asked map[*lane]bool, limit *limit) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.turn.current.lanes {
		if !asked[l] && l.broken.tries == 0 && limit.allows(l.turns) {
			l.hot = true
			return true
		}
	}
	return false
}

// toCount returns the lanes whose messages are to be counted, and whether these are all.
func (r *roster) toCount(now time.Time) (lanes map[*lane]struct{}, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = r.turn.counted.IsZero() || now.Sub(r.turn.counted) >= formerEvery
	lanes = map[*lane]struct{}{}
	for _, l := range r.lanes {
		if all || l.current || r.turn.filled[l] {
			lanes[l] = struct{}{}
		}
	}
	return lanes, all
}

// counted notes which lanes had messages when all were counted.
func (r *roster) counted(filled map[*lane]bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn.filled, r.turn.counted = filled, now
}
