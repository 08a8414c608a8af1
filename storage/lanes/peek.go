package lanes

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// peeker implements driver.Peeker.
type peeker struct {
	driver.Peeker
	s *store
}

// Peek implements driver.Peeker. The lanes yield their ready messages in turns, so that a full lane hides no other lane
// from a reader who breaks off early. The delayed messages of all lanes follow, by the end of their delay.
func (p peeker) Peek(ctx context.Context, name string) iter.Seq2[driver.Peeked, error] {
	q := p.s.queues[name]
	if q == nil {
		return p.Peeker.Peek(ctx, name)
	}
	return func(yield func(driver.Peeked, error) bool) {
		var open []*peeked
		lanes, _ := q.roster.toCount(time.Now()) // a lane of a former number of lanes costs a request, too
		for l := range lanes {
			next, stop := iter.Pull2(p.Peeker.Peek(ctx, l.name))
			defer stop()
			open = append(open, &peeked{lane: l, next: next})
		}
		for turn := 0; ; turn++ {
			for _, l := range open {
				if err := l.look(); err != nil {
					yield(driver.Peeked{}, err)
					return
				}
			}
			open = slices.DeleteFunc(open, func(l *peeked) bool { return l.ended })
			if len(open) == 0 {
				return
			}
			turn = nextPeek(open, turn)
			if !yield(open[turn].take(), nil) {
				return
			}
		}
	}
}

// peeked is the listing of one lane. It has looked at the first message that is left, unless it has none.
type peeked struct {
	lane  *lane
	next  func() (driver.Peeked, error, bool)
	first *driver.Peeked
	ended bool
}

// look reads the first message, unless it is known.
func (l *peeked) look() error {
	if l.first != nil || l.ended {
		return nil
	}
	m, err, ok := l.next()
	if err != nil {
		return err
	}
	if m.Receipt != "" {
		m.Receipt = l.lane.receipt(m.Receipt)
	}
	l.first, l.ended = &m, !ok
	return nil
}

func (l *peeked) take() driver.Peeked {
	m := *l.first
	l.first = nil
	return m
}

// nextPeek returns the number of the lane whose first message comes next: from turn on the next lane with a ready
// message, or else the lane whose message is ready first.
func nextPeek(open []*peeked, turn int) int {
	for i := range open {
		if n := (turn + i) % len(open); open[n].first.ReadyAt.IsZero() {
			return n
		}
	}
	soonest := 0
	for n, l := range open {
		if l.first.ReadyAt.Before(open[soonest].first.ReadyAt) {
			soonest = n
		}
	}
	return soonest
}
