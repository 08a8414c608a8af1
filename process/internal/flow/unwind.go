package flow

import "slices"

// unwound reports that what a step has done is to be taken back.
func (d *Instance) unwound(path string) bool {
	return slices.ContainsFunc(d.Unwinds, func(u Unwind) bool { return u.Then != unwindDone && u.holds(path) })
}

// cancelOpen cancels the open steps in a scope, those that are about to begin, and those that were to begin after
// unwinds in it.
func (x scopes) cancelOpen(scope string) {
	x.cancelWhere(func(path string) bool { return within(path, scope) })
}

func (x scopes) cancelWhere(in func(path string) bool) {
	d := x.doc
	x.touched = true
	x.next = slices.DeleteFunc(x.next, func(n *Node) bool { return in(n.Path) })
	for i := range d.Unwinds {
		if u := &d.Unwinds[i]; u.Then == unwindElse && in(u.Scope) {
			u.Then = ""
		}
	}
	for _, ev := range d.Events {
		if s, ok := x.step(ev); ok && ev.open() && in(ev.ID) {
			s.cancel()
		}
	}
}

// unwind takes one step of the unwinding, and reports whether there was one.
func (x scopes) unwind() bool {
	d := x.doc
	for i, u := range d.Unwinds {
		keeps := u.Then == unwindDone || u.Then == unwindEnd && d.Keep
		if x.busy(u) || keeps && len(d.Unwinds) > 1 {
			continue
		}
		if !keeps && shelf(x).fetch(u) {
			continue
		}
		x.touched = true
		if !keeps && x.undoNext(u) {
			return true
		}
		if d.Unwinds = slices.Delete(d.Unwinds, i, i+1); len(d.Unwinds) == 0 {
			d.Unwinds = nil
		}
		switch u.Then {
		case unwindEnd, unwindDone:
			x.end(d.Final)
		case unwindElse:
			if n := x.plan.Node(u.Scope); n != nil && n.Else != nil {
				x.push(n.Else.Steps[0])
			}
		case unwindRerun:
			operator(x).beginAgain(x.plan.Node(u.Scope))
		}
		return true
	}
	return false
}

// busy reports that something in the scope of an unwind is open, or is being undone.
func (x scopes) busy(u Unwind) bool {
	return slices.ContainsFunc(x.doc.Events, func(ev *Event) bool { return (ev.open() || ev.undoing()) && u.holds(ev.ID) })
}

// undoing reports that something that the step has done is being taken back.
func (e *Event) undoing() bool {
	return slices.ContainsFunc(e.Undos, func(u *Undo) bool { return !u.Status.Final() })
}

// takesBack is undoing, also of a part of the step that has ended.
func (e *Event) takesBack() bool {
	return e.undoing() || slices.ContainsFunc(e.StuckParts, func(x StuckPart) bool { return x.Undoes })
}

// undoNext begins to undo the step of a scope that ended last, and those that ended before it side by side with it.
func (x scopes) undoNext(u Unwind) bool {
	var batch []*Event
	for {
		last := x.lastBefore(u, batch)
		if last == nil || slices.ContainsFunc(batch, func(ev *Event) bool { return !x.sideBySide(ev.ID, last.ID) }) {
			break
		}
		batch = append(batch, last)
	}
	for _, ev := range batch {
		ev.Back = u.Then == unwindEnd || u.Then == unwindRerun
		s, _ := x.step(ev)
		undoing{s}.begin()
	}
	return len(batch) > 0
}

// lastBefore returns the armed step of a scope that ended last before those of a batch.
func (x scopes) lastBefore(u Unwind, batch []*Event) (last *Event) {
	for _, ev := range x.doc.Events {
		before := len(batch) == 0 || ev.Order < batch[len(batch)-1].Order
		if before && (last == nil || ev.Order > last.Order) && u.holds(ev.ID) && x.armed(ev) {
			last = ev
		}
	}
	return last
}

// armed reports that a step has ended, and has done something that is to be undone if its scope fails.
func (x scopes) armed(ev *Event) bool {
	switch {
	case ev.open() || ev.Status == Undone || ev.Status == Undoing:
		return false
	case ev.Fan == nil:
		return ev.Armed
	case len(ev.Fan.Armed) > 0:
		return true
	}
	n := x.plan.Node(ev.ID)
	return n != nil && (n.Child != nil || ev.Fan.Paged) && n.undoable() && ev.Fan.OK > 0 && ev.Fan.Undo < ev.Fan.N
}

// sideBySide reports that two steps are in different branches of one All.
func (x scopes) sideBySide(a, b string) bool {
	for n := x.plan.Node(a); n != nil; n = n.Seq.Owner {
		o := n.Seq.Owner
		if o == nil {
			return false
		}
		if within(b, o.Path) {
			return o.Verb == All && !within(b, n.Seq.Path) && !n.Seq.Alt && !(o.Else != nil && within(b, o.Else.Path))
		}
	}
	return false
}
