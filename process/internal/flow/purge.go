package flow

import (
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// retention says how long an instance is kept that has ended, and purges it.
type retention struct{ fold *fold }

// How long an instance is kept at least, beside the longest Try of its agents. An attempt may be given up, or lose its
// message, and still succeed; one that nobody has heard of may take longer.
const (
	leastRetention   = time.Hour
	unheardRetention = 48 * time.Hour // a worker tells of it for a day, and an undo has another
)

// kept is how long the instance is kept that has ended.
func (r retention) kept() time.Duration {
	p, least := r.fold.plan, leastRetention
	d := p.Retention
	if r.fold.doc.Final != Completed {
		d = times(3, d)
	}
	if slices.ContainsFunc(r.fold.doc.Events, (*Event).awaits) {
		least = unheardRetention
	}
	return max(d, plus(least, p.whole.longest))
}

// keepUntil sends the alarm at which the instance's retention is over.
func (r retention) keepUntil(x time.Time) {
	f := r.fold
	f.doc.Purge, f.touched = reach(f.now, x), true
	f.send(channel.At(f.doc.Purge, Alarm{Plan: f.plan.Name, ID: f.id, At: f.doc.Purge, Purge: true}))
}

// purge leaves a tombstone, and asks for all else to be deleted. An instance that takes something back, or that
// somebody must act on, is kept until that has happened, also in a part of it.
func (r retention) purge(m Alarm) {
	f, d := r.fold, r.fold.doc
	if d.Purge.IsZero() || d.Purge.After(m.At) { // the alarm is of an earlier end
		return
	}
	if !d.over() {
		return
	}
	until := d.Ended.Add(r.kept())
	if slices.ContainsFunc(d.Events, func(ev *Event) bool { return ev.takesBack() || ev.Stuck() }) {
		until = m.At.Add(r.kept())
	}
	if until.After(m.At) {
		r.keepUntil(until)
		return
	}
	*d = Instance{
		Plan: d.Plan, Version: d.Version, Print: d.Print, Status: d.Final, Final: d.Final, Created: d.Created, Ended: d.Ended, Digest: d.Digest,
		Seq: d.Seq + 1, Purged: true, Unheard: d.unheard(),
	}
	f.touched = true
	f.send(Record{Plan: f.plan.Name, ID: f.id, Forget: true})
	f.send(channel.At(f.now.Add(DefaultRetention), Record{Plan: f.plan.Name, ID: f.id, Delete: true}))
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
