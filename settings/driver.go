package settings

import (
	"fmt"
	"strings"
	"time"
)

// A clock counts how long a roll-out has baked. It needs no other clock: the time that it counts lies between two
// writes of the document, so what all drivers count is never more than the time that has passed.
type clock struct {
	epoch   int64
	seen    time.Time // when this node saw or wrote that epoch
	counted time.Time // up to when its time has been counted
}

// see notes the epoch of the document that was just read.
func (k *clock) see(epoch int64, now time.Time) {
	if k.epoch != epoch {
		*k = clock{epoch, now, now}
	}
}

// skip notes that the time up to a moment doesn't count; the zero time changes nothing.
func (k *clock) skip(until time.Time) {
	if !until.IsZero() {
		k.counted = until
	}
}

// wrote notes that this node has written an epoch, which counts the time up to a moment.
func (k *clock) wrote(epoch int64, now, counted time.Time) {
	if counted.Before(k.counted) {
		counted = k.counted
	}
	*k = clock{epoch, now, counted}
}

// A driver is what a node knows while it brings roll-outs forward. All nodes do. The one that wrote last goes on, and
// the others follow when it has stopped, or has been silent for three polls. But any node rolls back at once.
type driver struct {
	id    string        // of the node
	poll  time.Duration // the node's
	clock clock
}

// A move is what a driver does about a roll-out.
type move struct {
	write   bool      // of next, in place of the document
	next    document  // it rolls back, begins or ends a stage, counts a bake, or says why it doesn't
	counted time.Time // the time up to then has been counted, or doesn't count; zero: as before
}

// move decides by the document, which has a roll-out, and by the rows of the nodes.
func (v driver) move(d document, all rows, now time.Time) move {
	c, r := *d.Candidate, *d.Candidate.Roll
	a := all.assess(c)
	if len(a.ill) > 0 {
		return move{true, d.settle(RolledBack, a.ill, now), now}
	}
	if all.have(r.Driver) && r.Driver != v.id && now.Sub(v.clock.seen) < silence*v.poll {
		return move{}
	}
	r.Driver, r.At = v.id, now
	if a.canaries == 0 {
		// Those that ran it have stopped in order. Others begin, and bake for the whole time.
		r.Upto, r.Baked, r.Why = max(r.Upto, c.upto(r.Stage, all.live())), 0, "no node runs it"
		if again := d.rolled(r); again.Candidate.Roll.Upto != c.Roll.Upto {
			return move{true, again, now}
		}
		a.holds = append(a.holds, r.Why)
	}
	return v.bake(d, r, a, all, now)
}

// bake counts the time of a stage in which nobody is ill, or tells why it doesn't count. It ends the stage when that
// has baked for long enough.
func (v driver) bake(d document, r roll, a assessment, all rows, now time.Time) move {
	c := *d.Candidate
	full := c.stage().Bake
	to := now
	r.Why = ""
	switch {
	case len(a.holds) > 0:
		r.Why = clean(strings.Join(a.holds, "; "), maxReason)
	case r.Baked < full:
		to = a.until
		r.Baked += max(0, min(to.Sub(v.clock.counted), 2*v.poll, full-r.Baked))
	}
	if r.Why == "" && r.Baked >= full {
		if !a.counting || a.since.calls() >= c.stage().calls() {
			return move{true, d.next(all.live(), v.id, now), now}
		}
		r.Why = fmt.Sprintf("the nodes that run it have counted fewer than %d calls", c.stage().calls())
	}
	if r.Why != c.Roll.Why || r.Baked-c.Roll.Baked >= c.pace(v.poll)/2 || r.Baked == full && c.Roll.Baked < full {
		return move{true, d.rolled(r), to}
	}
	if len(a.holds) > 0 {
		return move{counted: now} // this time doesn't count
	}
	return move{}
}

// moved reports that a roll-out is in another stage than before, has other canaries, or has ended.
func moved(before, after *candidate) bool {
	return after == nil || after.Roll.Stage != before.Roll.Stage || after.Roll.Upto != before.Roll.Upto
}

// An assessment is what the rows of the nodes make of a roll-out.
type assessment struct {
	ill      []Refusal // why it must end; none: it need not
	holds    []string  // why its bake doesn't count
	canaries int       // nodes that are alive and shall run the candidate
	until    time.Time // the canaries are known to have been well up to then
	counting bool      // they count their work
	since    Work      // of the canaries
}

// assess tells how a roll-out fares, by the last look at the rows. Nothing in a row that depends on a clock matters.
func (all rows) assess(c candidate) (a assessment) {
	var before, others Work
	for _, s := range all {
		n, alive := s.Row.Node, s.Alive
		v, answered := n.says(c.Version)
		name := clean(n.Name, maxBy)
		reports := n.Health != nil && n.Health.Version == c.Version
		canary := answered && v.Yes && c.includes(n.ID)
		switch {
		case canary && !alive:
			a.ill = append(a.ill, Refusal{name, "it has died with it, or just before: its row has been the same for three polls"})
		case !alive:
		case !answered:
			a.holds = append(a.holds, name+" has not answered")
		case !v.Yes:
			a.ill = append(a.ill, Refusal{name, clean(v.Why, maxReason)})
		case !canary && reports && n.Health.Since != nil:
			others = others.plus(*n.Health.Since)
		case !canary:
		case reports && n.Health.Ill != "":
			a.ill = append(a.ill, Refusal{name, clean(n.Health.Ill, maxReason)})
		default:
			if a.canaries++; !reports || n.Version != c.Version {
				a.holds = append(a.holds, name+" doesn't run it yet")
				continue
			}
			if a.canaries == 1 || s.After.Before(a.until) {
				a.until = s.After
			}
			if h := n.Health; h.Since != nil && h.Before != nil {
				a.counting, a.since, before = true, a.since.plus(*h.Since), before.plus(*h.Before)
			}
		}
	}
	if why := compare(a.since, others, before, c.stage().calls()); why != "" {
		a.ill = append(a.ill, Refusal{"the nodes that run it", why})
	}
	return a
}
