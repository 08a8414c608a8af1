package bucket

import "time"

const (
	unitsPerCall = 1000 // of a rate
	holds        = 0.2  // seconds of its share that a bucket holds
	headroom     = 1.2  // how much more a part of a rate wants than it used
	headStart    = 0.05 // calls a second, likewise
	nearlyAll    = 0.9
	leastSpell   = 2 * time.Second
	spellPermits = 16 // that a spell has, if it isn't too long
)

// Units returns a rate in the units of a document: thousandths of a call a second.
func Units(perSecond float64) int64 { return int64(perSecond * unitsPerCall) }

// PerSecond returns a rate that is in the units of a document.
func PerSecond(units int64) float64 { return float64(units) / unitsPerCall }

// permits are the meter of a rate: a share is a number of calls a second.
type permits struct {
	ttl    time.Duration
	tokens float64   // that can be taken, in calls
	filled time.Time // until when tokens have come
	eager  bool      // it is not known yet how much is needed
	used   int64     // since the last renewal
	since  time.Time // when that was
	recent [2]spell  // this one, and the last
	due    time.Time // when a call that was refused is to try again: until then it waits
}

// spell is a short time of a rate.
type spell struct {
	since       time.Time
	given, used float64 // permits
	refused     bool
	idle        bool // a permit was left for half of the time of a bucket
}

// fill brings the permits until now. A share that has ended takes the permits with it.
func (p *permits) fill(now time.Time, s share) {
	rate := PerSecond(s.force(now))
	if now.Before(s.until) || !p.filled.Before(s.until) {
		more := rate * now.Sub(p.filled).Seconds()
		p.tokens += more
		p.recent[0].given += more
		p.recent[0].idle = p.recent[0].idle || p.tokens >= 1+rate*holds/2
		if age := now.Sub(p.recent[0].since); age >= leastSpell && (p.recent[0].given >= spellPermits || age >= p.ttl/3) {
			p.recent[0], p.recent[1] = spell{since: now, refused: now.Before(p.due)}, p.recent[0]
		}
	} else {
		p.tokens = 0
	}
	p.filled = now
	if rate == 0 {
		p.tokens = 0
	}
	p.tokens = min(p.tokens, max(1, rate*holds))
}

func (p *permits) take(int64) (taken, short bool) {
	if p.tokens < 1 {
		return false, false
	}
	p.tokens--
	p.used++
	p.recent[0].used++
	return true, false
}

// refuse notes that a call tries again when a permit is due. The call may sleep through whole spells, and counts as
// refused in each.
func (p *permits) refuse(now time.Time, share int64, ahead int) (due time.Duration, short bool) {
	rate := PerSecond(share)
	due = p.ttl / 20 // without a share it isn't known
	if rate > 0 {
		due = max(time.Duration((1-p.tokens)/rate*float64(time.Second)), time.Nanosecond)
	}
	p.recent[0].refused, p.due = true, now.Add(due)
	if rate > 0 {
		due += time.Duration(float64(ahead) / rate * float64(time.Second))
	}
	return due, p.starves()
}

func (p *permits) give() {}

func (p *permits) underWay() int64 { return 0 }

func (p *permits) room(share int64, within time.Duration) int {
	return int(p.tokens + PerSecond(share)*within.Seconds())
}

// starves reports that more is needed than is given. That is when the last spell used nearly all, was refused a call,
// and left no permit for a while. The permit that is due may be missing.
func (p *permits) starves() bool {
	last := p.recent[1]
	return p.eager || last.refused && !last.idle && last.used+1 >= nearlyAll*last.given
}

// wants doesn't keep for a period what it no longer uses, if others are hungry.
func (p *permits) wants(now time.Time, before, most int64, fresh, hungry bool) int64 {
	switch {
	case p.starves():
		return most
	case fresh:
		return somewhatMore(float64(p.used), now.Sub(p.since))
	case hungry && !p.recent[1].since.IsZero():
		if less := somewhatMore(p.recent[0].used+p.recent[1].used, now.Sub(p.recent[1].since)); less < before*3/4 {
			return less
		}
	}
	return before
}

// somewhatMore is what a rate wants of which permits were used in a time.
func somewhatMore(used float64, in time.Duration) int64 {
	return Units(headroom*used/max(in, time.Second).Seconds() + headStart)
}

func (p *permits) apart(share int64) time.Duration {
	if share == 0 {
		return 0
	}
	return time.Duration(2 / PerSecond(share) * float64(time.Second))
}

func (p *permits) begin(now time.Time, eager bool) { p.eager, p.used, p.since = eager, 0, now }
