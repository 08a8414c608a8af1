package schedule

import (
	"slices"
	"time"
)

// These are the reasons why a due time has not run.
const (
	skippedMissed  = "it was missed"
	skippedOverlap = "the run before went on"
	skippedPaused  = "the schedule was paused"
	skippedMany    = "too many were missed"
)

// skip notes that due times have not run. Neighbouring due times share a note.
func (d *decision) skip(from, due time.Time, cause Cause, why string) {
	run, before := Run{Due: due, From: from, Cause: cause, Skipped: why}, d.doc.Runs
	if len(before) > 0 && before[0].Skipped == why && before[0].Cause == cause {
		run.From, before = before[0].From, before[1:]
	}
	d.doc.Runs = newest(run, before, keptRuns)
	d.count(skipped)
}

// collect decides about the due times until now: they wait to run, or are left out. It stops when most wait.
func (d *decision) collect(spec Spec, most int) {
	for !d.doc.Next.IsZero() && !d.doc.Next.After(d.now) && len(d.doc.Waiting) < most {
		x := entry{Due: d.doc.Next, From: d.doc.Next, Cause: Scheduled}
		if inTime := d.inTime(); x.Due.Before(inTime) && !d.makeUp(&x, spec, inTime) {
			continue
		}
		d.doc.Decided, d.doc.Next = x.Due, spec.due.next(x.Due)
		if d.doc.Definition.overlap() == Skip && d.doc.busy() {
			d.skip(x.From, x.Due, x.Cause, skippedOverlap)
			continue
		}
		d.doc.Waiting = append(slices.Clip(d.doc.Waiting), x)
	}
}

// inTime returns the time before which a due time is missed by now.
func (d *decision) inTime() time.Time {
	came := d.now
	if !d.seen.IsZero() {
		came = d.seen
	}
	return came.Add(-d.doc.Definition.Grace.duration())
}

// makeUp decides about an entry that was missed, because it was due before inTime. It is false if the entry is left
// out.
func (d *decision) makeUp(x *entry, spec Spec, inTime time.Time) bool {
	switch d.doc.Definition.missed() {
	case None:
		d.leaveOut(spec, inTime, skippedMissed)
		return false
	case All:
		if within := d.now.Add(-d.doc.Definition.Within.duration()); x.Due.Before(within) {
			d.leaveOut(spec, within, skippedMissed)
			return false
		}
		x.Cause = Missing
	default:
		if next := spec.due.next(inTime.Add(-1)); !next.IsZero() && !next.After(d.now) {
			x.Due = next // it stands for those before
		} else {
			x.Due, x.Cause = spec.last(x.Due, d.now), Missing
		}
	}
	return true
}

// leaveOut leaves out the due times before t.
func (d *decision) leaveOut(spec Spec, t time.Time, why string) {
	d.doc.Decided = spec.last(d.doc.Next, t.Add(-1))
	d.skip(d.doc.Next, d.doc.Decided, Missing, why)
	d.doc.Next = spec.due.next(d.doc.Decided)
}

// resume ends a pause at the time of the order. The due times of the pause are left out.
func (d *decision) resume(spec Spec, at time.Time) {
	if at = later(at, d.doc.Paused.At); at.After(d.now) {
		at = d.now
	}
	d.doc.Paused = nil
	if !d.doc.Next.IsZero() && !d.doc.Next.After(at) {
		last := spec.last(d.doc.Next, at)
		d.skip(d.doc.Next, last, Scheduled, skippedPaused)
		d.doc.Decided, d.doc.Next = last, spec.due.next(last)
	}
}
