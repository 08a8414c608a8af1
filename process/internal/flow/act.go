package flow

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// operator takes what people, sweeps and parents ask for.
type operator struct{ *turn }

func (o operator) act(m Act) {
	d := o.doc
	switch m.Do {
	case ActUndo:
		o.undoMe(m)
	case ActGo:
		if d.Page != nil && d.Page.Hold && len(d.Events) > 0 {
			d.Page.Hold, o.touched = false, true
			if s, ok := o.step(d.Events[0]); ok {
				fan{s}.more()
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
		decider{o}.fail(m)
	case ActRerun:
		o.rerun(m)
	}
}

func (o operator) did(m Act) {
	o.moved = true
	o.note(Note{From: m.From, Do: m.Do, Path: m.Path, By: m.By, Why: m.Why})
}

func (o operator) refuse(m Act, why string) {
	o.note(Note{From: m.From, Do: m.Do + " refused", Path: m.Path, By: m.By, Why: why})
}

// nudge sends the alarms again, which may be lost, and brings the index up to date.
func (o operator) nudge() {
	d := o.doc
	d.Alarm, o.touched, o.moved = time.Time{}, true, true
	shelf(o).askAgain()
	if d.over() && !d.Purge.IsZero() {
		clock(o).keepUntil(d.Purge)
	}
}

// cancel cancels the instance.
func (o operator) cancel(m Act) {
	d := o.doc
	switch {
	case d.over() && m.Parent: // which has not heard of it, and needs no result any more
		o.touched = true
		o.tellParent(false)
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
	o.touched = true
	d.Cancel = &Note{At: o.now, From: m.From, Do: m.Do, By: shorten(m.By), Why: shorten(m.Why)}
	if d.Final != "" { // it is being undone already
		return
	}
	d.Keep = o.plan.Keep
	if m.Parent {
		d.Keep = m.Keep
	}
	o.fold(Canceled, o.cancelled(m.By))
}

func (o operator) cancelled(by string) string {
	if by == "" {
		return "canceled"
	}
	return "canceled by " + shorten(by)
}

// undoMe takes back a part that has ended well, for its parent.
func (o operator) undoMe(m Act) {
	d := o.doc
	switch {
	case d.Parent == nil || !d.over(): // it will answer when it ends
		return
	case d.UndoFor == 0 && (d.Final == Completed || d.Keep):
		d.UndoFor, d.Keep = m.Undo, false
		o.fold(Undone, "undone with what it belongs to")
	default:
		d.UndoFor, o.touched = m.Undo, true
		o.tellParent(true)
	}
}

// retry tries a step that is stuck, or its undos that are, once more.
func (o operator) retry(m Act) {
	if o.undos(m, func(s undoing, u *Undo) { s.again(u) }) {
		return
	}
	s, ok := o.stuckStep(m)
	if !ok {
		return
	}
	if o.awaits(m, s) {
		return
	}
	if s.ev.Fan != nil && s.ev.Halt == haltFailed {
		o.refuse(m, "items of it have failed for good: skip it, or run again from it")
		return
	}
	if (decider{o}).items(m, s) {
		return
	}
	o.did(m)
	switch s.ev.Halt {
	case haltDoubt:
		s.ev.Base = s.ev.Attempt
		o.waitOn(s)
	case haltBegin:
		o.beginOnce(s)
	case haltTake:
		o.takeOnce(s)
	case haltLate, haltLost:
		s.ev.Lost = nil
		o.waitOn(s)
	default:
		o.anew(s)
	}
}

// undos does something with the undos of a path's steps that are stuck, and reports whether there are any.
func (o operator) undos(m Act, do func(undoing, *Undo)) bool {
	var found bool
	for _, ev := range o.doc.Events {
		s, ok := o.step(ev)
		if !ok || ev.ID != m.Path {
			continue
		}
		for _, u := range append([]*Undo(nil), ev.Undos...) {
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
	s, ok = o.step(o.doc.find(m.Path))
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

// beginOnce begins a step of which nothing was begun, or goes on with one that could not begin all.
func (o operator) beginOnce(s step) {
	if s.ev.Fan == nil {
		opening{s}.begin()
		return
	}
	o.goOn(s)
}

// takeOnce takes the result of a step once more.
func (o operator) takeOnce(s step) {
	ev := s.ev
	result := ev.Result
	ev.Status, ev.Halt, ev.Result, ev.Msg = InProcess, "", nil, ""
	switch {
	case ev.Fan != nil:
		held := ev.Fan.Held
		if ev.Fan.Held = nil; (fan{s}).takeAll(held) {
			o.goOn(s)
		}
	case ev.Verb == Ask:
		a, _ := s.n.answer(ev.Answer)
		if a.Refusal {
			ear(o).refuse(s, a, result)
			return
		}
		s.take(result, a.Apply)
	default:
		s.take(result, s.n.Apply)
	}
}

// waitOn gives more time to a step whose time was over. Nobody knows what its last attempt has done, so its key stays.
func (o operator) waitOn(s step) {
	switch ev := s.ev; ev.Verb {
	case Do, Wait:
		opening{s}.begin()
	case Ask:
		o.anew(s)
	case Child:
		ev.Status, ev.Halt, ev.Timeout, ev.Msg = InProcess, "", s.n.deadline(o.now), ""
	default:
		o.goOn(s)
	}
}

// goOn goes on with a fan.
func (o operator) goOn(s step) {
	s.ev.Status, s.ev.Halt, s.ev.Timeout, s.ev.Msg = InProcess, "", s.n.deadline(o.now), ""
	fan{s}.goOn()
}

// anew begins a step again that is known to have failed, with a key of its own.
func (o operator) anew(s step) {
	s.close(Aborted)
	o.doc.Run++
	o.push(s.n)
}

// skip ends a step that is stuck as if it were done, with a result, or lets its undos that are stuck be.
func (o operator) skip(m Act) {
	if o.undos(m, func(s undoing, u *Undo) { s.end(u, Skipped) }) {
		return
	}
	s, ok := o.stuckStep(m)
	if !ok {
		return
	}
	if o.awaits(m, s) {
		return
	}
	if (decider{o}).items(m, s) {
		return
	}
	ev := s.ev
	doubt := ev.Halt == haltDoubt && ev.Fan == nil
	if m.Result != nil {
		if err := s.apply(s.n.takes(), m.Result); err != nil {
			o.refuse(m, "its result: "+err.Error())
			return
		}
	}
	o.did(m)
	switch {
	case ev.Fan != nil:
		parts{s}.cancel(Skipped, ev.Msg)
		fan{s}.ended()
	case ev.Verb == Child && ev.Halt == haltLate:
		parts{s}.cancel(Skipped, ev.Msg)
	default:
		if doubt {
			ev.Digest = digest(m.Result, "")
			s.arm(null(m.Result))
		} else if s.did() {
			s.arm(ev.Result)
		} else if m.Result != nil && ev.Verb != Child {
			s.arm(m.Result)
		}
		if ev.Ending == Canceled {
			s.close(Skipped)
			return
		}
		s.finish(Skipped)
	}
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

// rerun begins again from a step of the plan's own sequence. All that was done from there on is taken back before.
func (o operator) rerun(m Act) {
	d, n := o.doc, o.plan.Node(m.Path)
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
	d := o.doc
	switch {
	case n == nil || n.Seq != o.plan.Root || d.Page != nil:
		return "it can be run again from a step of the plan's own sequence only"
	case d.Parent != nil:
		return "it belongs to " + d.Parent.ID + ": run that again"
	case !d.over() && d.Status != Stuck:
		return "it has not ended and is not stuck"
	case !d.over() && d.Final != "":
		return "it is being undone"
	}
	if last := o.plan.Step(d.Reached); last == nil || last.Index < n.Index {
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

// beginAgain begins from a step on, now that what was done has been taken back. Steps that may still say something stay
// in the document.
func (o operator) beginAgain(n *Node) {
	d := o.doc
	var kept []*Event
	for _, ev := range d.Events {
		x := o.plan.Node(ev.ID)
		if rootIndex(ev.ID) <= n.Index || ev.unknown() || x != nil && x.undoable() {
			ev.Back = false // it is begun anew
			kept = append(kept, ev)
			continue
		}
		o.leave(ev)
	}
	d.Events = kept
	for i := range d.Shelf {
		d.Shelf[i].Back = false
	}
	d.Run++
	if p := o.plan.Step(d.Pivot); p != nil && rootIndex(p.Path) >= n.Index+1 {
		d.Pivot = ""
	}
	if o.plan.Within > 0 && d.Pivot == "" {
		d.By = o.now.Add(o.plan.Within)
	}
	o.moved = true
	o.push(n)
}
