package flow

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// These errors say why a message can't be taken, for errors.Is. The document is then as it was.
var (
	ErrOtherInput = errors.New("the instance was started with another input")
	ErrTooLarge   = errors.New("the document of the instance would be too large")
	ErrEarly      = errors.New("the signal comes early, and there is no room for it beside the others that do")
	ErrPurged     = errors.New("an agent has succeeded after its instance was purged, and nothing can take that back")
)

// A Reply is an event of the program: the answer to an Ask, or what a Wait waits for.
type Reply struct {
	Sort channel.Kind
	Body jsontext.Value
	Path string // of the Ask that it answers, by its reply address; empty: none
	Run  int
}

// Advance takes a message: a [Start], [Done], [Alarm], [Signal], [Act] or [Reply], at the time of that message. It
// changes d and returns the messages to be sent. If it reports no change, d is as it was. After an error d must not be
// used any more. p is the plan of the instance's part, in the instance's version.
func (p *Plan) Advance(id string, d *Instance, m any, now time.Time) (out []channel.Message, changed bool, err error) {
	f := &fold{plan: p, id: id, doc: d, now: now}
	before := d.size()
	err = f.take(m)
	if err == nil {
		err = f.refused
	}
	if err != nil || !f.touched {
		return nil, false, err
	}
	scopes{f}.run()
	settler{f}.settle()
	if n := d.size(); n > before && n > limit(m) && !f.undoes {
		return nil, false, tooLarge(n)
	}
	return f.out, true, nil
}

// limit returns how large a document may be after a message. Messages that say nothing new must always be taken, or the
// instance would stand still; what they add is bounded.
func limit(m any) int {
	switch m := m.(type) {
	case Start, Signal:
		return MaxSize
	case Reply:
		return MaxSize + resultRoom
	case Act:
		if m.Result != nil {
			return MaxSize + resultRoom
		}
	case Done:
		if m.Outcome == OK {
			return MaxSize + resultRoom
		}
	}
	return math.MaxInt
}

// take takes the message.
func (f *fold) take(m any) error {
	d := f.doc
	start, starts := m.(Start)
	switch {
	case starts && start.Parent == nil && d.Digest != "" && d.Digest != start.Digest():
		return ErrOtherInput
	case starts && !d.began():
		f.start(start)
	case d.Purged:
		return d.missed(m)
	case starts:
	case d.began():
		f.advance(m)
	default:
		f.early(m)
	}
	return nil
}

// missed refuses a success that nobody had heard of when the instance was purged.
func (d *Instance) missed(m any) error {
	if done, ok := m.(Done); ok && done.Outcome == OK && done.Undo == 0 && slices.Contains(d.Unheard, PathRun(done.Path, done.Run)) {
		return ErrPurged
	}
	return nil
}

// early takes a message of an instance that has not started. Signals and cancels that come early wait for a day.
func (f *fold) early(m any) {
	d := f.doc
	o := listener{f}
	switch m := m.(type) {
	case Signal:
		o.keep(m)
		f.wait()
	case Reply:
		if o.listens(m.Sort) {
			o.keep(Signal{Sort: m.Sort, Body: m.Body})
			f.wait()
		}
	case Act:
		switch {
		case m.Do == ActCancel && d.Cancel == nil:
			d.Cancel = m.note(f.now)
			f.wait()
		case m.Do == ActGo && strings.Contains(f.id, "/") && !d.Going: // its parent was faster than its start
			d.Going = true
			f.wait()
		}
	case Alarm:
		if d.Status == Init && !d.Created.Add(initFor).After(m.At) { // nobody has started it
			*d = Instance{Plan: d.Plan}
			f.touched = true
			f.send(Record{Plan: f.plan.Name, ID: f.id, Delete: true})
		}
	}
}

// wait keeps a document until the instance is started.
func (f *fold) wait() {
	d := f.doc
	d.Plan, d.Status, f.touched = f.plan.Name, Init, true
	if d.Created.IsZero() {
		d.Created = f.now
	}
}

// Digest tells inputs apart.
func (m Start) Digest() string { return digest(m.State, "") }

// start begins the instance.
func (f *fold) start(m Start) {
	d := f.doc
	f.touched, f.moved = true, true
	d.Plan, d.Version, d.Print = f.plan.Name, f.plan.Version, f.plan.whole.Print
	d.Part, d.Parent, d.State, d.Firm, d.Limit = m.Part, m.Parent, m.State, m.Firm, m.By
	d.Status, d.Created, d.Alarm, d.Digest = InProcess, f.now, time.Time{}, m.Digest()
	if f.plan.Within > 0 && m.Page == nil && !m.Firm {
		d.By = f.now.Add(f.plan.Within)
	}
	switch {
	case d.Cancel != nil:
		d.Msg = cancelled(d.Cancel.By)
		scopes{f}.end(Canceled)
	case m.Page != nil:
		f.startPage(*m.Page)
	default:
		f.begin(f.plan.Root.Steps[0])
	}
	d.Going = false
}

// advance takes a message of an instance that has started.
func (f *fold) advance(m any) {
	switch m := m.(type) {
	case Done:
		f.done(m)
	case Alarm:
		alarms{f}.take(m)
	case Signal:
		listener{f}.signal(m)
	case Reply:
		listener{f}.reply(m)
	case Act:
		operator{f}.act(m)
	case Fetched:
		if word := (shelf{f}).back(m); word != nil {
			f.done(*word)
		}
	}
}

// done takes the end of an attempt, of an undo, or of a child.
func (f *fold) done(m Done) {
	if m.Outcome == Lost {
		lost{f}.take(m)
		return
	}
	s, ok := f.step(f.doc.findRun(m.Path, m.Run))
	if !ok && m.Outcome == OK {
		shelf{f}.hear(m)
	}
	if !ok {
		return // it has left the document, or was never in it
	}
	if m.Unheard && !s.ev.Unheard {
		s.ev.Unheard, f.touched = true, true
		announcer{f}.tellUnheard()
	}
	if m.Outcome == Silent {
		return
	}
	lost{f}.foundWord(s, m)
	switch {
	case m.Outcome == Halted || m.Outcome == Moving:
		parts{s}.says(m)
	case m.Undo > 0:
		undoing{s}.answer(m)
	case m.List && s.ev.Fan == nil: // the step has no items
	default:
		s.kind().done(m)
	}
}

// startPage begins the items of a page, unless it is to wait.
func (f *fold) startPage(page Page) {
	d := f.doc
	n := f.plan.Node(d.Parent.Path)
	ev := &Event{ID: n.Path, Verb: n.Verb, Name: n.Name, Status: InProcess, Created: f.now, Fan: newFan(page.Items)}
	page.Items, page.Hold = nil, page.Hold && !d.Going
	d.Page, d.Events = &page, []*Event{ev}
	fanStep{baseStep{step{f, ev, n}}}.more()
}
