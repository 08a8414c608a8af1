package lanes

import (
	"math"
	"time"
)

const (
	// slowLaneOthers to 1 is how turns are divided between all other lanes and the slow lane, while both have messages.
	slowLaneOthers = 7

	firstGuess = 0.01   // seconds that a message takes, while none has ended
	leastTime  = 0.0001 // seconds that each message pays for at least
	mostDebt   = 10.0   // seconds of turns that a lane may have to wait for, however long its messages took
)

// turns divide what is received among lanes: first among the classes by their weights, then evenly among the lanes of a
// class. A lane pays for the time in which its messages were in hand, and the lane that has paid least is next. So slow
// messages count for more. A lane without messages saves nothing up, and doesn't hold up others.
type turns struct {
	classes []*class
	guess   float64 // what a message takes, in seconds

	looks           int // at cold lanes
	looked          time.Time
	current, former rotation       // the lanes that messages are sent into, and the others
	filled          map[*lane]bool // the lanes that had messages when all were counted
	counted         time.Time
}

// newTurns returns the turns of lanes.
func newTurns(lanes []*lane) (t turns) {
	for _, l := range lanes {
		if n := len(t.classes); n == 0 || t.classes[n-1] != l.turns {
			t.classes = append(t.classes, l.turns)
		}
		l.turns.lanes = append(l.turns.lanes, l)
		if l.current {
			t.current.lanes = append(t.current.lanes, l)
		} else {
			t.former.lanes = append(t.former.lanes, l)
		}
	}
	return t
}

// A rotation is lanes that are looked at one after the other.
type rotation struct {
	lanes []*lane
	at    int
}

// next returns the next cold lane that may be received from, or nil if there is none.
func (r *rotation) next(limit *limit) *lane {
	for range r.lanes {
		r.at = (r.at + 1) % len(r.lanes)
		if l := r.lanes[r.at]; !l.hot && l.broken.tries == 0 && limit.allows(l.turns) {
			return l
		}
	}
	return nil
}

// nextCold returns the cold lane whose turn it is to be looked at, or nil.
func (t *turns) nextCold(limit *limit) *lane {
	if t.looks++; t.looks%formerLooks == 0 {
		return t.former.next(limit)
	}
	return t.current.next(limit)
}

// begin notes a message that is in hand from now on.
func (t *turns) begin(l *lane) {
	l.hand++
	l.turns.hand++
}

// end lets a lane pay for a message that was in hand.
func (t *turns) end(l *lane, took float64) {
	t.guess += (took - t.guess) / 16
	l.account.end(took, 1)
	l.turns.end(took, l.turns.weight)
}

// An account is what a lane or a class has paid, and what it owes for messages in hand.
type account struct {
	paid float64
	hand int
	in   bool // it had messages in the last round
}

// owes is what the account will have paid when all in hand has ended.
func (a *account) owes(guess, weight float64) float64 { return a.paid + float64(a.hand)*guess/weight }

// end pays for a message in hand.
func (a *account) end(took, weight float64) {
	a.hand--
	a.paid += took / weight
}

// A class is the lanes of one priority, or the slow lane.
type class struct {
	account
	priority Priority
	weight   float64
	aside    bool // the slow lane, whose weight depends on the others
	lanes    []*lane
}

// An ask is how many messages to receive from a lane.
type ask struct {
	lane  *lane
	n     int
	signs int // that the lane had
}

// divide divides n places among lanes that may have messages, within a limit. A lane that the limit leaves out keeps
// its claim to later turns.
func (t *turns) divide(n int, from []*lane, limit limit) []ask {
	if len(from) == 0 {
		return nil
	}
	if t.guess == 0 {
		t.guess = firstGuess
	}
	asks := make([]ask, len(from))
	by := make(map[*class][]*ask, len(t.classes))
	for i, l := range from {
		asks[i] = ask{lane: l, signs: l.signs}
		by[l.turns] = append(by[l.turns], &asks[i])
	}
	t.enter(by)
	for range n {
		c := t.next(by, &limit)
		if c == nil {
			break
		}
		limit.take(c)
		a := c.next(by[c], t.guess)
		a.n++
		a.lane.hand++
		c.hand++
	}
	for _, a := range asks { // what really comes is taken later
		a.lane.hand -= a.n
		a.lane.turns.hand -= a.n
	}
	return asks
}

// enter lets classes and lanes begin that had nothing in the round before: what they didn't use is gone.
func (t *turns) enter(by map[*class][]*ask) {
	var classes []*account
	others := 0.0
	for _, c := range t.classes {
		asks := by[c]
		if len(asks) > 0 && !c.aside {
			others += c.weight
		}
		var lanes []*account
		for _, a := range asks {
			lanes = append(lanes, &a.lane.account)
		}
		level(lanes)
		for _, l := range c.lanes {
			l.in = false
		}
		for _, a := range lanes {
			a.in = true
		}
		if len(asks) > 0 {
			classes = append(classes, &c.account)
		}
	}
	level(classes)
	for _, c := range t.classes {
		c.in = len(by[c]) > 0
		if c.aside {
			c.weight = max(1, others) / slowLaneOthers
		}
	}
}

// level brings accounts that had nothing to the least of the others, and bounds what an account is behind.
func level(accounts []*account) {
	least := math.Inf(1)
	for _, a := range accounts {
		if a.in {
			least = min(least, a.paid)
		}
	}
	if math.IsInf(least, 1) { // they all begin: nobody has a claim
		least = math.Inf(-1)
		for _, a := range accounts {
			least = max(least, a.paid)
		}
	}
	for _, a := range accounts {
		a.paid = min(max(a.paid, least), least+mostDebt)
	}
}

// next returns the class whose turn it is, or nil if the limit leaves out all.
func (t *turns) next(by map[*class][]*ask, limit *limit) (best *class) {
	for _, c := range t.classes {
		if len(by[c]) > 0 && limit.allows(c) && (best == nil || c.owes(t.guess, c.weight) < best.owes(t.guess, best.weight)) {
			best = c
		}
	}
	return best
}

// next returns the lane whose turn it is.
func (c *class) next(asks []*ask, guess float64) *ask {
	best := asks[0]
	for _, a := range asks[1:] {
		if a.lane.owes(guess, 1) < best.lane.owes(guess, 1) {
			best = a
		}
	}
	return best
}
