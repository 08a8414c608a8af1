package settings

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// pace is how long a node waits between two looks during a roll-out.
func (c candidate) pace(poll time.Duration) time.Duration {
	return min(poll, max(soon, c.stage().Bake/4))
}

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

// drive brings a roll-out forward by one step. All nodes do. The one that wrote last goes on, and the others follow
// when it has stopped, or has been silent for three polls. But any node rolls back at once. changed reports that there
// is something else to heed now.
func (s *follower[T]) drive(ctx context.Context, live []Node) (changed bool) {
	d, now := s.seen.doc, time.Now()
	c, r := *d.Candidate, *d.Candidate.Roll
	a := s.nodes.assess(c)
	if len(a.ill) > 0 {
		return s.step(ctx, d.settle(RolledBack, a.ill, now), now)
	}
	if _, listed := s.nodes.present.Seen[r.Driver]; listed && r.Driver != s.id && now.Sub(s.clock.seen) < silence*s.cfg.Poll {
		return false
	}
	r.Driver, r.At = s.id, now
	if a.canaries == 0 {
		// Those that ran it have stopped in order. Others begin, and bake for the whole time.
		r.Upto, r.Baked, r.Why = max(r.Upto, c.upto(r.Stage, live)), 0, "no node runs it"
		if again := d.rolled(r); again.Candidate.Roll.Upto != c.Roll.Upto {
			return s.step(ctx, again, now)
		}
		a.holds = append(a.holds, r.Why)
	}
	full := c.stage().Bake
	to := now
	r.Why = ""
	switch {
	case len(a.holds) > 0:
		r.Why = clean(strings.Join(a.holds, "; "), maxReason)
	case r.Baked < full:
		to = a.until
		r.Baked += max(0, min(to.Sub(s.clock.counted), 2*s.cfg.Poll, full-r.Baked))
	}
	if r.Why == "" && r.Baked >= full {
		if !a.counting || a.since.calls() >= c.stage().calls() {
			return s.step(ctx, d.next(live, s.id, now), now)
		}
		r.Why = fmt.Sprintf("the nodes that run it have counted fewer than %d calls", c.stage().calls())
	}
	if r.Why != c.Roll.Why || r.Baked-c.Roll.Baked >= c.pace(s.cfg.Poll)/2 || r.Baked == full && c.Roll.Baked < full {
		return s.step(ctx, d.rolled(r), to)
	}
	if len(a.holds) > 0 {
		s.clock.counted = now // this time doesn't count
	}
	return false
}

// step writes the next state of a roll-out. Its time has been counted up to a moment.
func (s *follower[T]) step(ctx context.Context, next document, counted time.Time) (changed bool) {
	before := s.seen.doc.Candidate
	err := s.write(ctx, &s.seen, next)
	if storage.LostRace(err) {
		return true // somebody else was first
	}
	s.note(ctx, "bring a roll-out forward", err)
	if err != nil {
		return false
	}
	if counted.Before(s.clock.counted) {
		counted = s.clock.counted
	}
	s.clock = clock{s.seen.doc.Epoch, time.Now(), counted}
	if after := s.seen.doc.Candidate; after != nil && after.Roll.Stage == before.Roll.Stage && after.Roll.Upto == before.Roll.Upto {
		return false
	}
	s.tell(ctx)
	return true
}
