package schedule

import (
	"fmt"
	"slices"
	"time"
)

// collection is the collection of the documents.
const collection = "schedules"

const (
	keptRuns    = 20   // that a document remembers
	keptChanges = 20   // likewise
	mostWaiting = 10   // due times that wait to run; others are left to a later wake
	mostAsked   = 100  // entries that wait, with those that operators ask for
	mostFilled  = 1000 // due times of a backfill
	keptMissed  = 200  // due times of a definition that wait to run when another one replaces it
)

// A document is a schedule as it is stored. Its slices are never changed in place. All its times are in UTC.
type document struct {
	Definition definition `json:"definition"`
	Program    string     `json:"program"`            // that has registered it last
	Queue      string     `json:"queue"`              // of its messages
	Registered time.Time  `json:"registered"`         // when the registration of this definition was sent
	Replaced   []replaced `json:"replaced,omitempty"` // lately
	Candidate  *candidate `json:"candidate,omitempty"`

	Decided time.Time `json:"decided,omitzero"` // the last due time that is decided about
	Next    time.Time `json:"next,omitzero"`    // the next one; zero: none
	Armed   time.Time `json:"armed,omitzero"`   // of the wake that counts; zero: none
	Sent    time.Time `json:"sent,omitzero"`    // when that wake was sent
	Seen    time.Time `json:"seen,omitzero"`    // when that wake came to a worker that can't decide about it
	Paused  *Change   `json:"paused,omitempty"`
	Stopped *Change   `json:"stopped,omitempty"` // no worker knows it any more

	Waiting   []entry   `json:"waiting,omitempty"`   // to run, in this order
	Backfills []filling `json:"backfills,omitempty"` // that go on
	Active    *Run      `json:"active,omitempty"`    // the run that goes on, unless runs may overlap
	Runs      []Run     `json:"runs,omitempty"`      // the newest first
	Changes   []Change  `json:"changes,omitempty"`   // the newest first
}

// A replaced definition is not taken again at once.
type replaced struct {
	Definition definition `json:"definition"`
	At         time.Time  `json:"at"`
}

// A candidate is a definition that is to be taken at a time.
type candidate struct {
	Definition definition `json:"definition"`
	Registered time.Time  `json:"registered"`
	At         time.Time  `json:"at"`
}

// An entry is a run that is to begin.
type entry struct {
	Due   time.Time `json:"due"`
	From  time.Time `json:"from"`
	Cause Cause     `json:"cause"`
	Asked string    `json:"asked,omitempty"` // the ID of the order
}

// A filling is a backfill with due times that are still to come.
type filling struct {
	ID   string    `json:"id"` // of the order
	Next time.Time `json:"next,omitzero"`
	To   time.Time `json:"to"`
}

// note adds a change.
func (d *document) note(now time.Time, c Change) {
	c.At = now
	d.Changes = newest(c, d.Changes, keptChanges)
}

// newest puts x before the others.
func newest[T any](x T, others []T, most int) []T {
	all := append(make([]T, 0, len(others)+1), x)
	return append(all, others[:min(len(others), most-1)]...)
}

// byClock reports that the clock has caused a run, and no operator.
func (c Cause) byClock() bool { return c == Scheduled || c == Missing }

// busy reports that a run by the clock goes on or waits.
func (d *document) busy() bool {
	return d.Active != nil && d.Active.Cause.byClock() || slices.ContainsFunc(d.Waiting, func(x entry) bool { return x.Cause.byClock() })
}

// full reports that no more due times are collected until a run ends.
func (d *document) full() bool { return d.Active != nil && len(d.Waiting) >= mostWaiting }

// mayOverlap reports that a run may begin while another one goes on.
func (d *document) mayOverlap() bool { return d.Definition.overlap() == Allow }

// fill lets due times of backfills wait. Those of the clock go before.
func (d *document) fill(spec Spec) {
	most := mostWaiting
	if !d.mayOverlap() {
		most = 1
	}
	for len(d.Backfills) > 0 && (d.mayOverlap() || d.Active == nil) && d.ready() < most {
		b := d.Backfills[0]
		if b.Next.IsZero() || b.Next.After(b.To) {
			d.Backfills = d.Backfills[1:]
			continue
		}
		d.Waiting = append(slices.Clip(d.Waiting), entry{Due: b.Next, From: b.Next, Cause: Backfilled, Asked: b.ID})
		b.Next = spec.due.next(b.Next)
		d.Backfills = append([]filling{b}, d.Backfills[1:]...)
	}
}

// mayRun reports that an entry is not held up by a pause.
func (d *document) mayRun(x entry) bool { return d.Paused == nil || !x.Cause.byClock() }

// ready counts the entries that no pause holds up.
func (d *document) ready() (n int) {
	for _, x := range d.Waiting {
		if d.mayRun(x) {
			n++
		}
	}
	return n
}

// hasWork reports that a run may begin now.
func (d *document) hasWork() bool {
	return d.Stopped == nil && (d.mayOverlap() || d.Active == nil) && d.ready()+len(d.Backfills) > 0
}

// take takes the entry that is to begin now.
func (d *document) take() (entry, bool) {
	i := slices.IndexFunc(d.Waiting, d.mayRun)
	if i < 0 || d.Active != nil && !d.mayOverlap() {
		return entry{}, false
	}
	x := d.Waiting[i]
	d.Waiting = slices.Delete(slices.Clone(d.Waiting), i, i+1)
	return x, true
}

// expire gives up a run that nobody has said to have ended.
func (d *document) expire(now time.Time) {
	longest := d.Definition.Longest.duration()
	if d.Active != nil && !now.Before(d.Active.Sent.Add(longest)) {
		d.end(d.Active.ID, time.Time{}, fmt.Sprintf("no Done came within %v", longest))
	}
}

// end notes how a run has ended. It is false for a run that isn't known, or has ended before.
func (d *document) end(id RunID, at time.Time, failed string) (known bool) {
	i := slices.IndexFunc(d.Runs, func(r Run) bool { return r.ID == id && r.Ended.IsZero() && r.Failed == "" })
	if i >= 0 {
		d.Runs = slices.Clone(d.Runs)
		d.Runs[i].Ended, d.Runs[i].Failed = at, failed
	}
	if d.Active != nil && d.Active.ID == id {
		d.Active, i = nil, 0
	}
	return i >= 0
}

// wakeAt returns when something is to be decided next, or the zero time.
func (d *document) wakeAt() (at time.Time) {
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if d.Stopped != nil {
		return at
	}
	if d.Paused == nil && !d.full() {
		earlier(d.Next)
	}
	if d.Paused == nil && d.Candidate != nil {
		earlier(d.Candidate.At)
	}
	if d.Active != nil && len(d.Waiting)+len(d.Backfills) > 0 {
		earlier(d.Active.Sent.Add(d.Definition.Longest.duration()))
	}
	return at
}

// beginPause begins a pause, and returns the change that it is. A resume that is under way does not end a pause that
// was asked for since.
func (d *document) beginPause(now time.Time, m order) Change {
	change := Change{At: now, ID: m.ID, By: m.By, Why: m.Why, What: "paused"}
	if d.Paused != nil {
		change.What = "unchanged: it was paused already"
		d.Paused = &Change{At: d.Paused.At, ID: m.ID, By: d.Paused.By, Why: d.Paused.Why, What: d.Paused.What}
	} else {
		d.Paused = &change
	}
	return change
}

// has reports that a change with an ID is among those that are kept.
func (d *document) has(id string) bool {
	return slices.ContainsFunc(d.Changes, func(x Change) bool { return x.ID == id })
}

// backfill begins a backfill, and returns the change that it is.
func (d *document) backfill(now time.Time, id string, spec Spec, m order) string {
	from, to := m.From.UTC(), m.To.UTC()
	if to.After(now) { // by the clock of another machine
		to = now
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

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
