package flow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// operator takes what people, sweeps and parents ask for.
type operator struct{ fold *fold }

func (o operator) act(m Act) {
	d := o.fold.doc
	switch m.Do {
	case ActUndo:
		o.undoPart(m)
	case ActGo:
		if d.Page != nil && d.Page.Hold && len(d.Events) > 0 {
			d.Page.Hold, o.fold.touched = false, true
			if s, ok := o.fold.step(d.Events[0]); ok {
				fanStep{baseStep{s}}.more()
			}
		}
	case ActNudge:
		if m.By != "sweep" {
			o.did(m)
		}
		o.nudge()
	case ActCancel:
		o.cancel(m)
	case ActRetry:
		o.retry(m)
	case ActSkip:
		o.skip(m)
	case ActFail:
		o.deny(m)
	case ActRerun:
		o.rerun(m)
	}
}

func (o operator) did(m Act) {
	o.fold.moved = true
	o.fold.note(Note{From: m.From, Do: m.Do, Path: m.Path, By: m.By, Why: m.Why})
}

func (o operator) refuse(m Act, why string) {
	o.fold.note(Note{From: m.From, Do: m.Do + " refused", Path: m.Path, By: m.By, Why: why})
}

// nudge sends the alarms again, which may be lost, and brings the index up to date.
func (o operator) nudge() {
	f, d := o.fold, o.fold.doc
	d.Alarm, f.touched, f.moved = time.Time{}, true, true
	shelf{f}.askAgain()
	if d.over() && !d.Purge.IsZero() {
		retention{f}.keepUntil(d.Purge)
	}
}

// cancel cancels the instance.
func (o operator) cancel(m Act) {
	f, d := o.fold, o.fold.doc
	switch {
	case d.over() && m.Parent && d.Parent != nil: // which has not heard of it, and needs no result any more
		f.touched = true
		announcer{f}.tellEnd(false)
		return
	case d.Cancel != nil:
		return
	case d.over():
		o.refuse(m, "it has ended")
		return
	case d.Final == Completed:
		o.refuse(m, "it has done all of its steps")
		return
	case d.Pivot != "":
		o.refuse(m, "it has passed "+d.Pivot+", from where it only goes on")
		return
	}
	f.touched = true
	d.Cancel = m.note(f.now)
	if d.Final != "" { // it is being undone already
		return
	}
	d.Keep = f.plan.Keep
	if m.Parent {
		d.Keep = m.Keep
	}
	scopes{f}.giveUp(Canceled, cancelled(m.By))
}

// note returns what the document remembers of a cancel.
func (m Act) note(now time.Time) *Note {
	return &Note{At: now, From: m.From, Do: m.Do, By: shorten(m.By), Why: shorten(m.Why)}
}

func cancelled(by string) string {
	if by == "" {
		return "canceled"
	}
	return "canceled by " + shorten(by)
}

// undoPart takes back a part that has ended well, for its parent.
func (o operator) undoPart(m Act) {
	d := o.fold.doc
	switch {
	case d.Parent == nil || !d.over(): // it will answer when it ends
		return
	case d.UndoFor == 0 && (d.Final == Completed || d.Keep):
		d.UndoFor, d.Keep = m.Undo, false
		scopes(o).giveUp(Undone, "undone with what it belongs to")
	default:
		d.UndoFor, o.fold.touched = m.Undo, true
		announcer(o).tellEnd(true)
	}
}

// retry tries a step that is stuck, or its undos that are, once more.
func (o operator) retry(m Act) {
	if o.undos(m, func(x undoing, u *Undo) { x.again(u) }) {
		return
	}
	s, ok := o.stuckStep(m)
	if !ok || o.awaits(m, s) {
		return
	}
	ev := s.ev
	if ev.Fan != nil && ev.Halt == haltFailed {
		o.refuse(m, "items of it have failed for good: skip it, or run again from it")
		return
	}
	if o.items(m, s) {
		return
	}
	o.did(m)
	switch ev.Halt {
	case haltDoubt:
		ev.Base = ev.Attempt
		s.kind().waitOn()
	case haltBegin:
		if ev.Fan != nil { // it could not begin all
			s.kind().waitOn()
			return
		}
		s.reopen()
		s.kind().begin()
	case haltTake:
		result := ev.Result
		ev.Status, ev.Halt, ev.Result, ev.Msg = InProcess, "", nil, ""
		s.kind().retake(result)
	case haltLate, haltLost:
		ev.Lost = nil
		s.kind().waitOn()
	default:
		s.anew()
	}
}

// undos does something with the undos of a path's steps that are stuck, and reports whether there are any.
func (o operator) undos(m Act, do func(undoing, *Undo)) bool {
	var found bool
	for _, ev := range o.fold.doc.Events {
		s, ok := o.fold.step(ev)
		if !ok || ev.ID != m.Path {
			continue
		}
		for _, u := range slices.Clone(ev.Undos) {
			if u.Status == Stuck {
				found = true
				do(undoing{s}, u)
			}
		}
	}
	if found {
		o.did(m)
	}
	return found
}

// stuckStep returns the step that an act is for, if it is stuck.
func (o operator) stuckStep(m Act) (s step, ok bool) {
	s, ok = o.fold.step(o.fold.doc.find(m.Path))
	switch {
	case !ok:
		o.refuse(m, "it has no such step in its document")
	case s.ev.Status != Stuck && s.ev.Stuck():
		o.refuse(m, "a part of the step is stuck, not the step")
		return s, false
	case s.ev.Status != Stuck:
		o.refuse(m, "the step is not stuck")
		return s, false
	}
	return s, ok
}

// awaits refuses an act on a step that must have a message that is in the poison queue: another one can't stand for it.
func (o operator) awaits(m Act, s step) bool {
	if s.ev.Halt != haltLost || s.ev.Fan == nil && s.ev.Verb != Child {
		return false
	}
	o.refuse(m, "a message for it is in the poison queue: send that back")
	return true
}

// skip ends a step that is stuck as if it were done, with a result, or lets its undos that are stuck be.
func (o operator) skip(m Act) {
	if o.undos(m, func(x undoing, u *Undo) { x.end(u, Skipped) }) {
		return
	}
	s, ok := o.stuckStep(m)
	if !ok || o.awaits(m, s) || o.items(m, s) {
		return
	}
	if m.Result != nil {
		if err := s.apply(s.n.takes(), m.Result); err != nil {
			o.refuse(m, "its result: "+err.Error())
			return
		}
	}
	o.did(m)
	s.kind().skip(m.Result)
}

// takes returns the function that takes a step's result into the state.
func (n *Node) takes() func(state any, result jsontext.Value) (any, error) {
	for _, a := range n.Answers {
		if !a.Refusal {
			return a.Apply
		}
	}
	return n.Apply
}

// deny takes it that a step whose outcome is unknown was not done.
func (o operator) deny(m Act) {
	s, ok := o.stuckStep(m)
	switch {
	case !ok:
		return
	case s.ev.Halt != haltDoubt:
		o.refuse(m, "nobody doubts what it has done: retry it, or skip it")
		return
	case o.items(m, s):
		return
	}
	o.did(m)
	s.resume()
	s.kind().deny(notDone(m))
}

// items does what an act says about the items that are in doubt, and reports whether the step has any.
func (o operator) items(m Act, s step) bool {
	if s.ev.Fan == nil || len(s.ev.Fan.Doubts) == 0 {
		return false
	}
	all := slices.Sorted(maps.Keys(s.ev.Fan.Doubts))
	if m.Item != nil {
		if all = []int{*m.Item}; s.ev.Fan.Doubts[*m.Item] == nil {
			o.refuse(m, fmt.Sprintf("the outcome of item %d is known", *m.Item))
			return true
		}
	}
	o.did(m)
	for _, i := range all {
		fanItem{s, i}.decide(m)
	}
	fanStep{baseStep{s}}.goOn()
	return true
}

// rerun begins again from a step of the plan's own sequence. All that was done from there on is taken back before.
func (o operator) rerun(m Act) {
	d, n := o.fold.doc, o.fold.plan.Node(m.Path)
	if why := o.cantRerun(n); why != "" {
		o.refuse(m, why)
		return
	}
	o.did(m)
	if !d.Ended.IsZero() {
		d.Was = d.Ended
	}
	d.Msg, d.Ended, d.Purge, d.Cancel, d.Final = "", time.Time{}, time.Time{}, nil, ""
	d.By, d.Keep = time.Time{}, false
	u := Unwind{Scope: n.Path, Then: unwindRerun}
	scopes(o).cancelWhere(u.holds)
	d.Unwinds = append(d.Unwinds, u)
}

// cantRerun says why an instance can't be run again from a step, or "".
func (o operator) cantRerun(n *Node) string {
	d := o.fold.doc
	switch {
	case n == nil || n.Seq != o.fold.plan.Root || d.Page != nil:
		return "it can be run again from a step of the plan's own sequence only"
	case d.Parent != nil:
		return "it belongs to " + d.Parent.ID + ": run that again"
	case !d.over() && d.Status != Stuck:
		return "it has not ended and is not stuck"
	case !d.over() && d.Final != "":
		return "it is being undone"
	}
	if last := o.fold.plan.Step(d.Reached); last == nil || last.Index < n.Index {
		return "it has not come so far"
	}
	for _, x := range d.Shelf {
		if x.Back && rootIndex(x.ID) <= n.Index {
			return "step " + x.ID + " before it was undone: run it again from there"
		}
	}
	for _, ev := range d.Events {
		switch {
		case ev.undoing():
			return "step " + ev.Name + " is being undone"
		case ev.Back && rootIndex(ev.ID) <= n.Index:
			return "step " + ev.Name + " before it was undone: run it again from there"
		}
	}
	return ""
}
