package schedule

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

const (
	// settleAfter is how long a definition that was replaced must not come back. Until then the processes that have it are
	// probably those of a version that is being replaced.
	settleAfter = 10 * time.Minute

	// outOfDate is how long before the registration of the present definition another one may have been sent that comes
	// after it. One that was sent earlier still comes from a machine whose clock is wrong, and counts.
	outOfDate = 2 * time.Minute

	// justSent is how long a worker that starts relies on a wake: several may start together.
	justSent = time.Minute

	// mostHandBacks is how often a message is handed back that this worker can't decide about: for about an hour, see
	// [pauseAfter].
	mostHandBacks = 125
)

// A decision is a document that changes at a moment.
type decision struct {
	doc   document
	name  string
	now   time.Time
	seen  time.Time // when the wake came to the first worker, unless it is this one
	again bool      // another wake is needed, though one counts
	count func(result)
}

// after returns the wakes that the document needs from now on.
func (d *decision) after() (wakes []channel.Message) {
	at := d.doc.wakeAt()
	if !at.Equal(d.doc.Armed) {
		d.doc.Armed, d.doc.Seen, d.again = at, time.Time{}, true
	}
	if d.again && !at.IsZero() {
		d.doc.Sent = d.now
		wakes = append(wakes, channel.At(at, wake{Schedule: d.name, Due: at}))
	}
	if d.doc.hasWork() {
		wakes = append(wakes, wake{Schedule: d.name})
	}
	return wakes
}

// handBack returns an error that hands a message back to another worker, which may be of another version. After an hour
// it returns nil.
func handBack(e *channel.Envelope, why error) error {
	if e.HandBacks >= mostHandBacks {
		return nil
	}
	return handlers.Later(pauseAfter(e.HandBacks), why.Error())
}

// pauseAfter returns how long a message stays away that was handed back n times. The first pauses are short, so that
// another worker gets it soon.
func pauseAfter(n int) time.Duration { return storecall.Doubled(time.Second, 30*time.Second, n) }

// unreadable ends a message that this worker can't decide about.
func unreadable(e *channel.Envelope, why error) error {
	if err := handBack(e, why); err != nil {
		return err
	}
	return handlers.Poison("a definition that can't be read", why)
}

// register decides about the registration by a worker that starts.
func (d *decision) register(e *channel.Envelope, m register) ([]channel.Message, error) {
	spec, err := m.Definition.read()
	if err != nil {
		return nil, unreadable(e, err)
	}
	next := candidate{Definition: m.Definition, Registered: e.Time.UTC(), At: d.now}
	first := d.doc.Definition == definition{}
	stale := !first && e.Time.Before(d.doc.Registered) && d.doc.Registered.Sub(e.Time) < outOfDate
	if !stale {
		d.again = d.doc.Queue != m.Queue // the wake is in a queue that nobody may consume any more
		d.doc.Program, d.doc.Queue = e.Source, m.Queue
	}
	switch at := replacedAt(d, m.Definition); {
	case first:
		d.doc.Definition, d.doc.Registered, d.doc.Decided, d.doc.Next = m.Definition, next.Registered, d.now, spec.due.next(d.now)
		d.doc.note(d.now, Change{By: e.Source, What: "registered: " + spec.String()})
	case stale:
	case m.Definition == d.doc.Definition:
		d.doc.Candidate = nil
		if spec, err = presentSpec(d); err != nil {
			return nil, unreadable(e, err)
		}
	case !at.IsZero():
		next.At = at.Add(settleAfter)
		d.doc.Candidate = &next
	default:
		d.adopt(next, spec)
	}
	if d.doc.Stopped != nil {
		d.doc.Stopped = nil
		d.doc.note(d.now, Change{By: e.Source, What: "goes on: a worker registers it again"})
	}
	// The wake may be lost in a poison queue, or hidden for too long by a clock that was wrong. A second one does nothing.
	ago := d.now.Sub(d.doc.Sent)
	d.again = d.again || ago < 0 || ago >= justSent
	return d.after(), nil
}

// replacedAt returns when a definition was replaced, if that was lately, or the zero time.
func replacedAt(d *decision, x definition) time.Time {
	for _, r := range d.doc.Replaced {
		if r.Definition == x && d.now.Sub(r.At).Abs() < settleAfter {
			return r.At
		}
	}
	return time.Time{}
}

// adopt takes a definition in place of another one. The due times of the other one until now wait to run, and the new
// one is due from now on. So there is neither a double nor a gap.
func (d *decision) adopt(c candidate, spec Spec) {
	before, err := presentSpec(d)
	d.seen = d.doc.Seen
	if err == nil && d.doc.Paused == nil {
		d.collect(before, keptMissed)
		if !d.doc.Next.IsZero() && !d.doc.Next.After(d.now) {
			d.leaveOut(before, d.now.Add(1), skippedMany)
		}
	}
	d.doc.Replaced = newest(replaced{d.doc.Definition, d.now}, slices.DeleteFunc(slices.Clone(d.doc.Replaced), func(r replaced) bool {
		return r.Definition == c.Definition || d.now.Sub(r.At).Abs() >= settleAfter
	}), keptChanges)
	what := fmt.Sprintf("registered: %v, in place of %v", spec, before)
	if spec.timing == before.timing {
		what = fmt.Sprintf("registered: %v, with another Config", spec)
	}
	d.doc.note(d.now, Change{By: d.doc.Program, What: what})
	d.doc.Definition, d.doc.Registered, d.doc.Candidate = c.Definition, c.Registered, nil
	d.doc.Decided = later(d.doc.Decided, d.now)
	d.doc.Next = spec.due.next(d.doc.Decided)
	if d.doc.mayOverlap() {
		d.doc.Active = nil
	}
}

// settle takes the candidate whose time has come. It returns the Spec from then on.
func (d *decision) settle() (Spec, error) {
	if c := d.doc.Candidate; c != nil && d.doc.Paused == nil && !c.At.After(d.now) {
		spec, err := c.Definition.read()
		if err == nil {
			d.adopt(*c, spec)
		}
		return spec, err
	}
	return presentSpec(d)
}

// presentSpec reads the definition. Another process has computed the next due time, maybe by other rules of the zone.
// Where this one has them otherwise, the due time is the nearest one by the present rules.
func presentSpec(d *decision) (Spec, error) {
	spec, err := d.doc.Definition.read()
	if err != nil {
		return spec, err
	}
	if next := spec.nearest(d.doc.Next); !next.Equal(d.doc.Next) {
		if !next.After(d.doc.Decided) {
			next = spec.due.next(d.doc.Decided)
		}
		d.doc.note(d.now, Change{What: fmt.Sprintf("due %s in place of %s, by the present rules of %s", next.Format(time.RFC3339), d.doc.Next.Format(time.RFC3339), d.doc.Definition.Zone)})
		d.doc.Next = next
	}
	d.doc.Backfills = slices.Clone(d.doc.Backfills)
	for i, b := range d.doc.Backfills {
		d.doc.Backfills[i].Next = spec.nearest(b.Next)
	}
	return spec, nil
}

// wake decides what is due, and begins what may begin.
func (d *decision) wake(e *channel.Envelope, m wake, s *set) ([]channel.Message, error) {
	if m.Again && d.doc.Definition != (definition{}) {
		d.again = true
		return d.after(), nil
	}
	counts := !m.Due.IsZero() && m.Due.Equal(d.doc.Armed)
	if !counts && (!m.Due.IsZero() || !d.doc.hasWork()) {
		return nil, values.ErrUnchanged
	}
	job := s.jobs[d.name]
	if job == nil {
		return d.passOn(e, m, errors.New("this worker doesn't have it"))
	}
	before := d.doc
	if counts {
		d.doc.Armed, d.seen, d.now = time.Time{}, d.doc.Seen, later(d.now, m.Due) // it has come: a clock that says otherwise is behind
	}
	spec, err := d.settle()
	if err != nil {
		d.doc = before
		return d.passOn(e, m, err)
	}
	d.doc.expire(d.now)
	if d.doc.Paused == nil {
		d.collect(spec, mostWaiting)
	}
	d.doc.fill(spec)
	return append(d.begin(job, spec), d.after()...), nil
}

// passOn leaves a wake to a worker that can decide about it. The document notes when the first worker had it, because
// it isn't late when it comes to another one. After an hour the schedule stops.
func (d *decision) passOn(e *channel.Envelope, m wake, why error) ([]channel.Message, error) {
	if !m.Due.IsZero() && d.doc.Seen.IsZero() {
		d.doc.Seen = later(d.now, m.Due)
		return []channel.Message{channel.After(pauseAfter(0), m)}, nil
	}
	if err := handBack(e, fmt.Errorf("schedule %s: %w", storage.Quote(d.name), why)); err != nil {
		return nil, err
	}
	d.doc.Armed, d.doc.Seen, d.doc.Stopped = time.Time{}, time.Time{}, &Change{At: d.now, What: "stopped: no worker has had it for an hour"}
	d.doc.note(d.now, *d.doc.Stopped)
	return nil, nil
}

// begin begins what may begin now, and returns the commands.
func (d *decision) begin(j *job, spec Spec) (commands []channel.Message) {
	began := time.Now()
	for n := 0; n < mostWaiting && time.Since(began) < buildTime; n++ {
		x, ok := d.doc.take()
		if !ok {
			break
		}
		id := x.id(d.name, d.now)
		run := Run{ID: runID(d.name, id), Due: x.Due, From: x.From, Cause: x.Cause}
		command, err := j.build(Tick{Schedule: d.name, Due: spec.due.in(x.Due), From: spec.due.in(x.From), Cause: x.Cause, Run: run.ID}, id)
		if err != nil {
			run.Failed = cut(err.Error())
			j.failed(run, err)
		} else {
			run.Sent, run.Command = d.now, command.id
			commands = append(commands, command)
			j.sent(run)
		}
		d.doc.Runs = newest(run, d.doc.Runs, keptRuns)
		if err == nil && !d.doc.mayOverlap() {
			d.doc.Active = &run
		}
	}
	return commands
}

// done decides about the end of a run.
func (d *decision) done(m Done) ([]channel.Message, error) {
	if !d.doc.end(m.Run, d.now, cut(m.Failed)) {
		return nil, values.ErrUnchanged
	}
	return d.after(), nil
}

// order decides about what an operator wants.
func (d *decision) order(e *channel.Envelope, m order) ([]channel.Message, error) {
	if d.doc.Definition == (definition{}) {
		return nil, handlers.Poison("no such schedule", fmt.Errorf("schedule %s: no worker has ever registered it", storage.Quote(d.name)))
	}
	spec, err := presentSpec(d)
	if err != nil {
		return nil, unreadable(e, err)
	}
	m.ID = e.ID
	change := Change{ID: m.ID, By: m.By, Why: m.Why}
	switch m.Do {
	case pause:
		change = d.doc.beginPause(d.now, m)
	case resume:
		switch change.What = "resumed"; {
		case d.doc.Paused == nil:
			change.What = "unchanged: it was not paused"
		case m.Pause != "" && m.Pause != d.doc.Paused.ID:
			change.What = "unchanged: it was paused again since"
		default:
			d.resume(spec, e.Time.UTC())
		}
	case runNow:
		if change.What = "run"; len(d.doc.Waiting) >= mostAsked {
			change.What = fmt.Sprintf("refused: %d runs wait already", len(d.doc.Waiting))
		} else {
			at := e.Time.UTC()
			d.doc.Waiting = append(slices.Clip(d.doc.Waiting), entry{Due: at, From: at, Cause: Asked, Asked: e.ID})
		}
	case backfill:
		change.What = d.doc.backfill(d.now, e.ID, spec, m)
	}
	d.doc.note(d.now, change)
	return d.after(), nil
}
