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

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// after returns the wakes that the document needs from now on.
func (d *decision) after() (wakes []channel.Message) {
	at := d.wakeAt()
	if !at.Equal(d.Armed) {
		d.Armed, d.Seen, d.again = at, time.Time{}, true
	}
	if d.again && !at.IsZero() {
		d.Sent = d.now
		wakes = append(wakes, channel.At(at, wake{Schedule: d.name, Due: at}))
	}
	if d.hasWork() {
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
	first := d.Definition == definition{}
	stale := !first && e.Time.Before(d.Registered) && d.Registered.Sub(e.Time) < outOfDate
	if !stale {
		d.again = d.Queue != m.Queue // the wake is in a queue that nobody may consume any more
		d.Program, d.Queue = e.Source, m.Queue
	}
	switch at := replacedAt(d, m.Definition); {
	case first:
		d.Definition, d.Registered, d.Decided, d.Next = m.Definition, next.Registered, d.now, spec.due.next(d.now)
		d.note(Change{By: e.Source, What: "registered: " + spec.String()})
	case stale:
	case m.Definition == d.Definition:
		d.Candidate = nil
		if spec, err = presentSpec(d); err != nil {
			return nil, unreadable(e, err)
		}
	case !at.IsZero():
		next.At = at.Add(settleAfter)
		d.Candidate = &next
	default:
		d.adopt(next, spec)
	}
	if d.Stopped != nil {
		d.Stopped = nil
		d.note(Change{By: e.Source, What: "goes on: a worker registers it again"})
	}
	// The wake may be lost in a poison queue, or hidden for too long by a clock that was wrong. A second one does nothing.
	ago := d.now.Sub(d.Sent)
	d.again = d.again || ago < 0 || ago >= justSent
	return d.after(), nil
}

// replacedAt returns when a definition was replaced, if that was lately, or the zero time.
func replacedAt(d *decision, x definition) time.Time {
	for _, r := range d.Replaced {
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
	d.seen = d.Seen
	if err == nil && d.Paused == nil {
		d.collect(before, keptMissed)
		if !d.Next.IsZero() && !d.Next.After(d.now) {
			d.leaveOut(before, d.now.Add(1), skippedMany)
		}
	}
	d.Replaced = newest(replaced{d.Definition, d.now}, slices.DeleteFunc(slices.Clone(d.Replaced), func(r replaced) bool {
		return r.Definition == c.Definition || d.now.Sub(r.At).Abs() >= settleAfter
	}), keptChanges)
	what := fmt.Sprintf("registered: %v, in place of %v", spec, before)
	if spec.timing == before.timing {
		what = fmt.Sprintf("registered: %v, with another Config", spec)
	}
	d.note(Change{By: d.Program, What: what})
	d.Definition, d.Registered, d.Candidate = c.Definition, c.Registered, nil
	d.Decided = later(d.Decided, d.now)
	d.Next = spec.due.next(d.Decided)
	if d.mayOverlap() {
		d.Active = nil
	}
}

// settle takes the candidate whose time has come. It returns the Spec from then on.
func (d *decision) settle() (Spec, error) {
	if c := d.Candidate; c != nil && d.Paused == nil && !c.At.After(d.now) {
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
	spec, err := d.Definition.read()
	if err != nil {
		return spec, err
	}
	if next := spec.nearest(d.Next); !next.Equal(d.Next) {
		if !next.After(d.Decided) {
			next = spec.due.next(d.Decided)
		}
		d.note(Change{What: fmt.Sprintf("due %s in place of %s, by the present rules of %s", next.Format(time.RFC3339), d.Next.Format(time.RFC3339), d.Definition.Zone)})
		d.Next = next
	}
	d.Backfills = slices.Clone(d.Backfills)
	for i, b := range d.Backfills {
		d.Backfills[i].Next = spec.nearest(b.Next)
	}
	return spec, nil
}

// wake decides what is due, and begins what may begin.
func (d *decision) wake(e *channel.Envelope, m wake, s *set) ([]channel.Message, error) {
	if m.Again && d.Definition != (definition{}) {
		d.again = true
		return d.after(), nil
	}
	counts := !m.Due.IsZero() && m.Due.Equal(d.Armed)
	if !counts && (!m.Due.IsZero() || !d.hasWork()) {
		return nil, values.ErrUnchanged
	}
	job := s.jobs[d.name]
	if job == nil {
		return d.passOn(e, m, errors.New("this worker doesn't have it"))
	}
	before := d.document
	if counts {
		d.Armed, d.seen, d.now = time.Time{}, d.Seen, later(d.now, m.Due) // it has come: a clock that says otherwise is behind
	}
	spec, err := d.settle()
	if err != nil {
		d.document = before
		return d.passOn(e, m, err)
	}
	d.expire()
	if d.Paused == nil {
		d.collect(spec, mostWaiting)
	}
	d.fill(spec)
	return append(d.begin(job, spec), d.after()...), nil
}

// passOn leaves a wake to a worker that can decide about it. The document notes when the first worker had it, because
// it isn't late when it comes to another one. After an hour the schedule stops.
func (d *decision) passOn(e *channel.Envelope, m wake, why error) ([]channel.Message, error) {
	if !m.Due.IsZero() && d.Seen.IsZero() {
		d.Seen = later(d.now, m.Due)
		return []channel.Message{channel.After(pauseAfter(0), m)}, nil
	}
	if err := handBack(e, fmt.Errorf("schedule %s: %w", storage.Quote(d.name), why)); err != nil {
		return nil, err
	}
	d.Armed, d.Seen, d.Stopped = time.Time{}, time.Time{}, &Change{At: d.now, What: "stopped: no worker has had it for an hour"}
	d.note(*d.Stopped)
	return nil, nil
}

// begin begins what may begin now, and returns the commands.
func (d *decision) begin(j *job, spec Spec) (commands []channel.Message) {
	began := time.Now()
	for n := 0; n < mostWaiting && time.Since(began) < buildTime; n++ {
		x, ok := d.take()
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
		d.Runs = newest(run, d.Runs, keptRuns)
		if err == nil && !d.mayOverlap() {
			d.Active = &run
		}
	}
	return commands
}

// done decides about the end of a run.
func (d *decision) done(m Done) ([]channel.Message, error) {
	if !d.end(m.Run, d.now, cut(m.Failed)) {
		return nil, values.ErrUnchanged
	}
	return d.after(), nil
}

// order decides about what an operator wants.
func (d *decision) order(e *channel.Envelope, m order) ([]channel.Message, error) {
	if d.Definition == (definition{}) {
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
		change = beginPause(d, m)
	case resume:
		switch change.What = "resumed"; {
		case d.Paused == nil:
			change.What = "unchanged: it was not paused"
		case m.Pause != "" && m.Pause != d.Paused.ID:
			change.What = "unchanged: it was paused again since"
		default:
			d.resume(spec, e.Time.UTC())
		}
	case runNow:
		if change.What = "run"; len(d.Waiting) >= mostAsked {
			change.What = fmt.Sprintf("refused: %d runs wait already", len(d.Waiting))
		} else {
			at := e.Time.UTC()
			d.Waiting = append(slices.Clip(d.Waiting), entry{Due: at, From: at, Cause: Asked, Asked: e.ID})
		}
	case backfill:
		change.What = d.backfill(e.ID, spec, m)
	}
	d.note(change)
	return d.after(), nil
}

// beginPause begins a pause, and returns the change that it is. A resume that is under way does not end a pause that
// was asked for since.
func beginPause(d *decision, m order) Change {
	change := Change{At: d.now, ID: m.ID, By: m.By, Why: m.Why, What: "paused"}
	if d.Paused != nil {
		change.What = "unchanged: it was paused already"
		d.Paused = &Change{At: d.Paused.At, ID: m.ID, By: d.Paused.By, Why: d.Paused.Why, What: d.Paused.What}
	} else {
		d.Paused = &change
	}
	return change
}

// resume ends a pause at the time of the order. The due times of the pause are left out.
func (d *decision) resume(spec Spec, at time.Time) {
	if at = later(at, d.Paused.At); at.After(d.now) {
		at = d.now
	}
	d.Paused = nil
	if !d.Next.IsZero() && !d.Next.After(at) {
		last := spec.last(d.Next, at)
		d.skip(d.Next, last, Scheduled, skippedPaused)
		d.Decided, d.Next = last, spec.due.next(last)
	}
}

// backfill begins a backfill, and returns the change that it is.
func (d *decision) backfill(id string, spec Spec, m order) string {
	from, to := m.From.UTC(), m.To.UTC()
	if to.After(d.now) { // by the clock of another machine
		to = d.now
	}
	n := spec.count(from, to, mostFilled+1)
	switch {
	case n == 0:
		return "refused: nothing is due then"
	case n > mostFilled:
		return fmt.Sprintf("refused: more than %d due times", mostFilled)
	case len(d.Backfills) >= keptChanges:
		return fmt.Sprintf("refused: %d backfills go on already", len(d.Backfills))
	}
	d.Backfills = append(slices.Clip(d.Backfills), filling{ID: id, Next: spec.due.next(from.Add(-1)), To: to})
	return fmt.Sprintf("backfill of %d due times, %s to %s", n, from.Format(time.RFC3339), to.Format(time.RFC3339))
}
