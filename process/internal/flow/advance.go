package flow

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/wire"
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

// turn is one message on its way through a document.
type turn struct {
	plan *Plan
	id   string
	doc  *Instance
	now  time.Time
	out  []channel.Message

	next    []*Node // to be begun
	refused error   // why the message is not taken
	touched bool    // the document has changed
	undoes  bool    // a success is taken back, whatever room that takes meanwhile
	moved   bool    // the index shows something else
	lines   []*Event
}

// Advance takes a message: a [Start], [Done], [Alarm], [Signal], [Act] or [Reply], at the time of that message. It
// changes d and returns the messages to be sent. If it reports no change, d is as it was. After an error d must not be
// used any more. p is the plan of the instance's part, in the instance's version.
func (p *Plan) Advance(id string, d *Instance, m any, now time.Time) (out []channel.Message, changed bool, err error) {
	t := &turn{plan: p, id: id, doc: d, now: now}
	before := d.size()
	err = t.take(m)
	if err == nil {
		err = t.refused
	}
	if err != nil || !t.touched {
		return nil, false, err
	}
	for t.run(); (scopes{t}).unwind(); {
		t.run()
	}
	settler{t}.settle()
	if n := d.size(); n > before && n > limit(m) && !t.undoes {
		return nil, false, tooLarge(n)
	}
	return t.out, true, nil
}

func tooLarge(n int) error {
	return fmt.Errorf("%w: %d bytes; at most %d: keep large states and results in a store of your own, and their names in the state", ErrTooLarge, n, MaxSize)
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
func (t *turn) take(m any) error {
	d := t.doc
	start, starts := m.(Start)
	switch {
	case starts && start.Parent == nil && d.Digest != "" && d.Digest != start.Digest():
		return ErrOtherInput
	case starts && !d.began():
		t.start(start)
	case d.Purged:
		return d.missed(m)
	case starts:
	case d.began():
		t.advance(m)
	default:
		t.early(m)
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
func (t *turn) early(m any) {
	d := t.doc
	ears := ear{t}
	switch m := m.(type) {
	case Signal:
		ears.keep(m)
		t.wait()
	case Reply:
		if ears.listens(m.Sort) {
			ears.keep(Signal{Sort: m.Sort, Body: m.Body})
			t.wait()
		}
	case Act:
		switch {
		case m.Do == ActCancel && d.Cancel == nil:
			d.Cancel = &Note{At: t.now, From: m.From, Do: m.Do, By: shorten(m.By), Why: shorten(m.Why)}
			t.wait()
		case m.Do == ActGo && strings.Contains(t.id, "/") && !d.Going: // its parent was faster than its start
			d.Going = true
			t.wait()
		}
	case Alarm:
		if d.Status == Init && !d.Created.Add(initFor).After(m.At) { // nobody has started it
			*d = Instance{Plan: d.Plan}
			t.touched = true
			t.send(Record{Plan: t.plan.Name, ID: t.id, Delete: true})
		}
	}
}

// initFor is how long a document waits for a start.
const initFor = 24 * time.Hour

// wait keeps a document until the instance is started.
func (t *turn) wait() {
	d := t.doc
	d.Plan, d.Status, t.touched = t.plan.Name, Init, true
	if d.Created.IsZero() {
		d.Created = t.now
	}
}

// Digest tells inputs apart.
func (m Start) Digest() string { return digest(m.State, "") }

// start begins the instance.
func (t *turn) start(m Start) {
	d := t.doc
	t.touched, t.moved = true, true
	d.Plan, d.Version, d.Print = t.plan.Name, t.plan.Version, t.plan.whole.Print
	d.Part, d.Parent, d.State, d.Firm, d.Limit = m.Part, m.Parent, m.State, m.Firm, m.By
	d.Status, d.Created, d.Alarm, d.Digest = InProcess, t.now, time.Time{}, m.Digest()
	if t.plan.Within > 0 && m.Page == nil && !m.Firm {
		d.By = t.now.Add(t.plan.Within)
	}
	switch {
	case d.Cancel != nil:
		d.Msg = operator{t}.cancelled(d.Cancel.By)
		t.end(Canceled)
	case m.Page != nil:
		t.startPage(*m.Page)
	default:
		t.push(t.plan.Root.Steps[0])
	}
	d.Going = false
}

// advance takes a message of an instance that has started.
func (t *turn) advance(m any) {
	switch m := m.(type) {
	case Done:
		t.done(m)
	case Alarm:
		clock{t}.alarm(m)
	case Signal:
		ear{t}.signal(m)
	case Reply:
		ear{t}.reply(m)
	case Act:
		operator{t}.act(m)
	case Fetched:
		shelf{t}.back(m)
	}
}

// done takes the end of an attempt, of an undo, or of a child.
func (t *turn) done(m Done) {
	if m.Outcome == Lost {
		lost{t}.take(m)
		return
	}
	s, ok := t.step(t.doc.findRun(m.Path, m.Run))
	if !ok && m.Outcome == OK {
		shelf{t}.hear(m)
	}
	if !ok {
		return // it has left the document, or was never in it
	}
	if m.Unheard && !s.ev.Unheard {
		s.ev.Unheard, t.touched = true, true
		if t.doc.over() && t.doc.Parent != nil {
			p := t.doc.Parent
			t.send(SilentOf(Begin{Plan: m.Plan, ID: p.ID, Path: p.Path, Run: p.Run}))
		}
	}
	if m.Outcome == Silent {
		return
	}
	s.foundWord(m)
	switch {
	case m.Outcome == Halted || m.Outcome == Moving:
		parts{s}.says(m)
	case m.Undo > 0:
		undoing{s}.answer(m)
	case m.List:
		listed{fan{s}}.answer(m)
	case s.ev.Fan != nil && m.Item != nil:
		fan{s}.done(m)
	case m.Outcome == OK && s.n.Verb == Child && m.Result == nil && s.ev.Digest != "": // it was asked to end, and had ended
	case m.Outcome == OK:
		word{s, m, s.n.Apply}.success()
	case s.n.Verb == Child:
		parts{s}.failed(m)
	default:
		word{s, m, nil}.failure()
	}
}

// step returns an event with its node.
func (t *turn) step(ev *Event) (s step, ok bool) {
	if ev == nil {
		return step{}, false
	}
	n := t.plan.Node(ev.ID)
	return step{t, ev, n}, n != nil
}

// note remembers what somebody did.
func (t *turn) note(n Note) {
	t.touched = true
	n.At, n.By, n.Why = t.now, shorten(n.By), shorten(n.Why)
	t.doc.Notes = append(t.doc.Notes, n)
	if extra := len(t.doc.Notes) - maxNotes; extra > 0 {
		t.doc.Notes = t.doc.Notes[extra:]
	}
}

func (t *turn) send(m channel.Message) { t.out = append(t.out, m) }

func (t *turn) push(n *Node) { t.next = append(t.next, n) }

// run begins the steps that are next, until all that are begun wait for something.
func (t *turn) run() {
	for len(t.next) > 0 && !t.doc.over() {
		n := t.next[0]
		t.next = t.next[1:]
		t.begin(n)
	}
	t.next = nil
}

// begin begins a step. One that has ended with an outcome that nobody knows goes on with the same key, so that it has
// one effect in all.
func (t *turn) begin(n *Node) {
	d := t.doc
	if n.Seq == t.plan.Root {
		d.Reached = n.Name
	}
	ev := d.find(n.Path)
	if ev != nil && ev.unknown() {
		ev.Base = ev.Attempt
		ev.Ended, ev.Order = time.Time{}, 0
	} else {
		ev = &Event{ID: n.Path, Run: d.Run, Verb: n.Verb, Name: n.Name, Created: t.now}
		d.Events = append(d.Events, ev)
	}
	opening{step{t, ev, n}}.begin()
}

// fold ends the instance, after all that was done has been taken back.
func (t *turn) fold(final Status, why string) {
	d := t.doc
	t.touched, t.moved = true, true
	d.Final, d.Msg, d.Ended = final, shorten(why), time.Time{}
	t.next = nil
	scopes{t}.cancelOpen("")
	if !d.Keep {
		d.Unwinds = nil
	}
	d.Unwinds = append(slices.DeleteFunc(d.Unwinds, func(u Unwind) bool { return u.Then != "" }), Unwind{Then: unwindEnd})
}

// end ends the instance.
func (t *turn) end(s Status) {
	d := t.doc
	t.touched, t.moved = true, true
	d.Final, d.Ended, d.Unwinds = s, t.now, nil
	t.next = nil
	for _, x := range d.Early {
		ear{t}.unheard(x, "")
	}
	d.Early = nil
	if d.Parent != nil {
		t.tellParent(true)
		return
	}
	clock{t}.keepUntil(t.now.Add(clock{t}.kept()))
}

// tellParent sends the word of a part that has ended, with its results or without.
func (t *turn) tellParent(results bool) {
	d := t.doc
	m := Done{Plan: t.plan.Name, ID: d.Parent.ID, Path: d.Parent.Path, Run: d.Parent.Run, Outcome: OK, Error: d.Msg, Undo: d.UndoFor, Began: d.Created, Ended: t.now}
	i := d.Parent.Index
	m.Item = &i
	m.Unheard = slices.ContainsFunc(d.Events, (*Event).awaits)
	switch {
	case d.UndoFor > 0:
	case d.Final == Canceled:
		m.Outcome = Withdrawn
	case d.Final != Completed:
		m.Outcome = Failed
	case d.Page == nil && results:
		m.Result = d.State
	}
	if d.Page != nil && d.UndoFor == 0 {
		if d.Final == Completed && results {
			m.Results = d.Page.Results
		}
		d.Page.Results = nil
		if len(d.Events) > 0 {
			m.Failed = d.Events[0].Failed
			if bad := d.Events[0].Fan.Worst; m.Error == "" && len(bad) > 0 {
				m.Error = bad[0].Msg
			}
		}
	}
	t.send(m)
}

// user calls a function of the plan with the state.
func (t *turn) user(f func(state any) error) error {
	return guard(func() error {
		state, err := t.plan.Decode(t.doc.State)
		if err != nil {
			return err
		}
		return f(state)
	})
}

// sendable refuses a message of the program that could not be sent: nothing else that the turn emits would be, either.
func sendable(m channel.Message, now time.Time) error {
	if wire.IsNil(m) {
		return nil
	}
	err := wire.CheckMessage(m)
	if err == nil {
		_, err = wire.Compose(m, "/process", now)
	}
	return err
}

// guard calls a function of the plan. However the function ends, its caller goes on: a panic is an error, and so is
// runtime.Goexit.
func guard(f func() error) error { return contain.Apart(f) }
