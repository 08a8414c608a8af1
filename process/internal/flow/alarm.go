package flow

import (
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// alarms sees to it that an alarm is under way for the earliest deadline, and takes alarms.
type alarms struct{ fold *fold }

// take ends all that was to end by the alarm's time.
func (a alarms) take(m Alarm) {
	f, d, x := a.fold, a.fold.doc, scopes(a)
	if m.Purge {
		retention{f}.purge(m)
		return
	}
	if !d.Alarm.IsZero() && !d.Alarm.After(m.At) {
		d.Alarm, f.touched = time.Time{}, true
	}
	lost{f}.foundAlarm(m.At)
	over := func(x time.Time) bool { return !x.IsZero() && !x.After(m.At) }
	if over(d.By) && d.Final == "" {
		d.By = time.Time{}
		x.giveUp(Aborted, "the time for all of it is over")
	}
	for _, ev := range slices.Clone(d.Events) {
		s := step{f, ev, f.plan.Node(ev.ID)}
		undoing{s}.late(over)
		if s.n != nil && ev.Status == InProcess && over(ev.Timeout) {
			a.timeOver(s)
			x.follow() // the end of one step may cancel the others
		}
	}
}

// timeOver ends a step whose time is over.
func (a alarms) timeOver(s step) {
	ev := s.ev
	if ev.Ending != "" {
		s.ended()
		return
	}
	why := "no end within " + ev.Timeout.Sub(ev.Created).String()
	if n := len(ev.Failures); n > 0 {
		why += ": " + ev.Failures[n-1].Msg
	}
	s.kind().late(why)
}

// arm sends an alarm for the earliest deadline, unless one is under way that comes no later.
func (a alarms) arm() {
	f, d := a.fold, a.fold.doc
	first := d.firstDeadline()
	if first.IsZero() || !d.Alarm.IsZero() && !first.Before(d.Alarm) {
		return
	}
	d.Alarm = reach(f.now, first)
	f.send(channel.At(d.Alarm, Alarm{Plan: f.plan.Name, ID: f.id, At: d.Alarm}))
}

// firstDeadline returns the earliest time at which something ends without a message, or zero.
func (d *Instance) firstDeadline() (first time.Time) {
	for _, ev := range d.Events {
		if ev.Status == InProcess {
			first = earliest(first, ev.Timeout)
		}
		for _, u := range ev.Undos {
			if u.Status == InProcess {
				first = earliest(first, u.Timeout)
			}
		}
	}
	switch {
	case d.Status == Init && d.Digest == "":
		first = earliest(first, d.Created.Add(initFor))
	case d.began() && d.Final == "":
		first = earliest(first, d.By)
	}
	return first
}

// initFor is how long a document waits for a start.
const initFor = 24 * time.Hour
