package row

import (
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
)

// pace says when the next step is due. The process itself gets at most 40 steps in a TTL, and others get 8 by rings.
type pace struct {
	ttl   time.Duration
	at    time.Time // the next step, at the latest
	gap   time.Time // not before, if only this process wants the step
	quiet time.Time // not before, if only others want the step
	rung  time.Time // the last step that others wanted
	rings bool      // others want a step
}

// isDue reports that it is time for a step, or that somebody wants one. hurried says that this process wants it.
// Otherwise a ring is of others.
func (p *pace) isDue(now time.Time, rung, hurried bool) bool {
	p.rings = p.rings || rung && !hurried
	switch {
	case !now.Before(p.at), hurried && !now.Before(p.gap):
	case p.rings && !now.Before(p.quiet):
		p.rung = now
	default:
		return false
	}
	p.rings = false
	return true
}

// rest sets the next step after a pause.
func (p *pace) rest(now time.Time, pause time.Duration) {
	p.at = now.Add(pause)
	p.gap = now.Add(min(pause, storecall.Spread(p.ttl/40)))
	if p.quiet = p.rung.Add(p.ttl / 8); p.quiet.Before(now) {
		p.quiet = now.Add(storecall.Spread(p.ttl / 200))
	}
}

// next returns when to ask again whether a step is due.
func (p *pace) next(hurried bool) time.Time {
	due := p.at
	if hurried && p.gap.Before(due) {
		due = p.gap
	}
	if p.rings && p.quiet.Before(due) {
		due = p.quiet
	}
	return due
}
