package bucket

import "time"

// places are the meter of slots: a share is a number of calls at a time.
type places struct {
	ttl   time.Duration
	busy  int64 // calls under way
	used  int64 // the most calls at a time, since the last renewal
	eager bool  // all were in use, or it is not known yet how much is needed
}

func (p *places) fill(time.Time, share) {}

func (p *places) take(share int64) (taken, short bool) {
	if p.busy >= share {
		return false, false
	}
	p.busy++
	p.used = max(p.used, p.busy)
	if p.busy == share {
		p.eager, short = true, true // there is none for the next call
	}
	return true, short
}

func (p *places) refuse(time.Time, int64, int) (due time.Duration, short bool) {
	p.eager = true
	return p.ttl / 20, true
}

func (p *places) give() { p.busy-- }

func (p *places) underWay() int64 { return p.busy }

func (p *places) room(share int64, _ time.Duration) int { return int(share) }

func (p *places) wants(_ time.Time, before, most int64, fresh, _ bool) int64 {
	switch {
	case p.eager:
		return most
	case fresh:
		return max(p.used, p.busy) + 1
	}
	return before
}

func (p *places) apart(int64) time.Duration { return 0 }

func (p *places) begin(_ time.Time, eager bool) { p.eager, p.used = eager, 0 }
