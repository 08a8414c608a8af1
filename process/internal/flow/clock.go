package flow

import (
	"math"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// clock takes alarms, and sees to it that there is one under way.
type clock struct{ *turn }

// alarm ends all that was to end by the alarm's time.
func (c clock) alarm(m Alarm) {
	d := c.doc
	if m.Purge {
		c.purge(m)
		return
	}
	if !d.Alarm.IsZero() && !d.Alarm.After(m.At) {
		d.Alarm, c.touched = time.Time{}, true
	}
	c.foundAlarm(m.At)
	over := func(x time.Time) bool { return !x.IsZero() && !x.After(m.At) }
	if over(d.By) && d.Final == "" {
		d.By = time.Time{}
		c.fold(Aborted, "the time for all of it is over")
	}
	for _, ev := range slices.Clone(d.Events) {
		for _, u := range ev.Undos {
			if u.Status == InProcess && over(u.Timeout) {
				u.Status, u.Timeout, c.touched, c.moved = Stuck, time.Time{}, true, true
				u.Failures = noteFailure(u.Failures, Failure{N: u.Attempt, At: c.now, Msg: "no end within " + UndoWithin.String()})
			}
		}
		if s, ok := c.step(ev); ok && ev.Status == InProcess && over(ev.Timeout) {
			c.timeOver(s)
		}
	}
}

// timeOver ends a step whose time is over.
func (c clock) timeOver(s step) {
	switch {
	case s.ev.Ending != "":
		s.ended()
	case s.ev.Verb == Sleep:
		c.moved = true
		s.take(nil, nil)
	default:
		s.late()
	}
}

// arm sends an alarm for the earliest deadline, unless one is under way that comes no later.
func (c clock) arm() {
	d := c.doc
	var first time.Time
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
	if first.IsZero() || !d.Alarm.IsZero() && !first.Before(d.Alarm) {
		return
	}
	d.Alarm = c.reach(first)
	c.send(channel.At(d.Alarm, Alarm{Plan: c.plan.Name, ID: c.id, At: d.Alarm}))
}

// maxHop is how far ahead an alarm is sent. One that comes too early sends the next.
const maxHop = 365 * 24 * time.Hour

// reach returns a time, or one as far ahead as an alarm is sent.
func (c clock) reach(x time.Time) time.Time {
	if latest := c.now.Add(maxHop); x.After(latest) {
		return latest
	}
	return x
}

// How long an instance is kept at least, beside the longest Try of its agents. An attempt may be given up, or lose its
// message, and still succeed; one that nobody has heard of may take longer.
const (
	leastRetention   = time.Hour
	unheardRetention = 48 * time.Hour // a worker tells of it for a day, and an undo has another
)

// kept is how long the instance is kept that has ended.
func (c clock) kept() time.Duration {
	d, least := c.plan.Retention, leastRetention
	if c.doc.Final != Completed {
		d = times(3, d)
	}
	if slices.ContainsFunc(c.doc.Events, (*Event).awaits) {
		least = unheardRetention
	}
	return max(d, plus(least, c.plan.whole.longest))
}

// plus and times are for durations that a program has chosen: what is too long becomes the longest.
func plus(a, b time.Duration) time.Duration {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

func times(n, d time.Duration) time.Duration {
	if d > math.MaxInt64/n {
		return math.MaxInt64
	}
	return n * d
}

// awaits reports that the step has ended with an attempt that nobody has heard of, and that may still succeed.
func (e *Event) awaits() bool {
	x := e.Fan
	return !e.open() && (e.unknown() || e.Unheard || x != nil && !x.Paged && x.atWork() > 0)
}

// unheard returns the steps whose own agents may still succeed.
func (d *Instance) unheard() (steps []string) {
	for _, ev := range d.Events {
		if x := ev.Fan; ev.awaits() && (ev.Verb == Do || ev.Verb == Each && !x.Paged) {
			steps = append(steps, PathRun(ev.ID, ev.Run))
		}
	}
	return steps
}

// keepUntil sends the alarm at which the instance's retention is over.
func (c clock) keepUntil(x time.Time) {
	c.doc.Purge = c.reach(x)
	c.touched = true
	c.send(channel.At(c.doc.Purge, Alarm{Plan: c.plan.Name, ID: c.id, At: c.doc.Purge, Purge: true}))
}

// purge leaves a tombstone, and asks for all else to be deleted. An instance that takes something back, or that
// somebody must act on, is kept until that has happened, also in a part of it.
func (c clock) purge(m Alarm) {
	d := c.doc
	if d.Purge.IsZero() || d.Purge.After(m.At) { // the alarm is of an earlier end
		return
	}
	if !d.over() {
		return
	}
	until := d.Ended.Add(c.kept())
	if slices.ContainsFunc(d.Events, func(ev *Event) bool { return ev.takesBack() || ev.Stuck() }) {
		until = m.At.Add(c.kept())
	}
	if until.After(m.At) {
		c.keepUntil(until)
		return
	}
	*d = Instance{
		Plan: d.Plan, Version: d.Version, Print: d.Print, Status: d.Final, Final: d.Final, Created: d.Created, Ended: d.Ended, Digest: d.Digest,
		Seq: d.Seq + 1, Purged: true, Unheard: d.unheard(),
	}
	c.touched = true
	c.send(Record{Plan: c.plan.Name, ID: c.id, Forget: true})
	c.send(channel.At(c.now.Add(DefaultRetention), Record{Plan: c.plan.Name, ID: c.id, Delete: true}))
}
