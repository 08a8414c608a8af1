package flow

import (
	"slices"
	"time"
)

// giveUp ends the instance, after all that was done has been taken back.
func (x scopes) giveUp(final Status, why string) {
	f, d := x.fold, x.fold.doc
	f.touched, f.moved = true, true
	d.Final, d.Msg, d.Ended = final, shorten(why), time.Time{}
	f.begins = nil
	x.cancelWhere(func(string) bool { return true })
	if !d.Keep {
		d.Unwinds = nil
	}
	d.Unwinds = append(slices.DeleteFunc(d.Unwinds, func(u Unwind) bool { return u.Then != "" }), Unwind{Then: unwindEnd})
}

// drop cancels what is open in a scope, and has all taken back that was done in it.
func (x scopes) drop(scope, then string) {
	x.cancelWhere(func(path string) bool { return within(path, scope) })
	x.fold.doc.Unwinds = append(x.fold.doc.Unwinds, Unwind{Scope: scope, Then: then})
}

// cancelWhere cancels the open steps in a scope, those that are about to begin, and those that were to begin after
// unwinds in it.
func (x scopes) cancelWhere(in func(path string) bool) {
	f, d := x.fold, x.fold.doc
	f.touched = true
	f.begins = slices.DeleteFunc(f.begins, func(n *Node) bool { return in(n.Path) })
	for i := range d.Unwinds {
		if u := &d.Unwinds[i]; u.Then == unwindElse && in(u.Scope) {
			u.Then = ""
		}
	}
	for _, ev := range d.Events {
		s, ok := f.step(ev)
		switch {
		case !ok || !ev.open() || !in(ev.ID):
		case ev.Ending != "", ev.Halt == haltDoubt && ev.Fan == nil: // whoever knows what it has done ends it
			ev.Ending = Canceled
		default:
			s.kind().cancel()
		}
	}
}

// unwind takes one step of the unwinding, and reports whether there was one.
func (x scopes) unwind() bool {
	f, d, t := x.fold, x.fold.doc, tree{x.fold.plan, x.fold.doc}
	for i, u := range d.Unwinds {
		keeps := u.Then == unwindDone || u.Then == unwindEnd && d.Keep
		if t.busy(u) || keeps && len(d.Unwinds) > 1 {
			continue
		}
		if !keeps && (shelf{f}).fetch(u) {
			continue
		}
		f.touched = true
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
			if n := f.plan.Node(u.Scope); n != nil && n.Else != nil {
				f.begin(n.Else.Steps[0])
			}
		case unwindRerun:
			x.beginAgain(f.plan.Node(u.Scope))
		}
		return true
	}
	return false
}

// undoNext begins to undo the step of a scope that ended last, and those that ended before it side by side with it.
func (x scopes) undoNext(u Unwind) bool {
	batch := tree{x.fold.plan, x.fold.doc}.nextUndos(u)
	for _, ev := range batch {
		ev.Back = u.Then == unwindEnd || u.Then == unwindRerun
		s, _ := x.fold.step(ev)
		s.kind().undo()
	}
	return len(batch) > 0
}

// beginAgain begins from a step on, now that what was done has been taken back. Steps that may still say something stay
// in the document.
func (x scopes) beginAgain(n *Node) {
	f, d := x.fold, x.fold.doc
	var kept []*Event
	for _, ev := range d.Events {
		x := f.plan.Node(ev.ID)
		if rootIndex(ev.ID) <= n.Index || ev.unknown() || x != nil && x.undoable() {
			ev.Back = false // it is begun anew
			kept = append(kept, ev)
			continue
		}
		f.leave(ev)
	}
	d.Events = kept
	for i := range d.Shelf {
		d.Shelf[i].Back = false
	}
	d.Run++
	if p := f.plan.Step(d.Pivot); p != nil && rootIndex(p.Path) >= n.Index+1 {
		d.Pivot = ""
	}
	if f.plan.Within > 0 && d.Pivot == "" {
		d.By = f.now.Add(f.plan.Within)
	}
	f.moved = true
	f.begin(n)
}

// end ends the instance.
func (x scopes) end(s Status) {
	f, d := x.fold, x.fold.doc
	f.touched, f.moved = true, true
	d.Final, d.Ended, d.Unwinds = s, f.now, nil
	f.begins = nil
	for _, e := range d.Early {
		f.unheard(e, "")
	}
	d.Early = nil
	if d.Parent != nil {
		announcer{f}.tellEnd(true)
		return
	}
	retention{f}.keepUntil(f.now.Add(retention{f}.kept()))
}
