package flow

import "slices"

// tree is a plan and the document of an instance. Its methods only look.
type tree struct {
	plan *Plan
	doc  *Instance
}

// caught reports that the plan goes on in another way if a step fails: by an Else, or by another branch of an Any.
func (t tree) caught(n *Node) bool {
	for t.doc.Page == nil {
		if n.Else != nil {
			return true
		}
		s := n.Seq
		for s.Alt {
			s = s.Owner.Seq
		}
		if n = s.Owner; n == nil {
			return false
		}
		if ev := t.doc.find(n.Path); n.Verb == Any && ev != nil && ev.Left > 1 {
			return true
		}
	}
	return false
}

// needed reports that a step is open, or holds what an undo may need.
func (t tree) needed(ev *Event) bool {
	return ev.open() || ev.Status == Undoing || t.armed(ev) || ev.undoing() || ev.Stuck()
}

// hears reports that a step that has ended may still get a success that is to be undone, or a word of a part that
// undoes one, or may go on with its key.
func (t tree) hears(ev *Event) bool {
	n := t.plan.Node(ev.ID)
	return ev.unknown() || n != nil && n.undoable() && (ev.Status != Completed || t.doc.Pivot == "" || Parts(ev, n.Verb) > 0)
}

// armed reports that a step has ended, and has done something that is to be undone if its scope fails.
func (t tree) armed(ev *Event) bool {
	switch {
	case ev.open() || ev.Status == Undone || ev.Status == Undoing:
		return false
	case ev.Fan == nil:
		return ev.Armed
	case len(ev.Fan.Armed) > 0:
		return true
	}
	n := t.plan.Node(ev.ID)
	return n != nil && (n.Child != nil || ev.Fan.Paged) && n.undoable() && ev.Fan.OK > 0 && ev.Fan.Undo < ev.Fan.N
}

// busy reports that something in the scope of an unwind is open, or is being undone.
func (t tree) busy(u Unwind) bool {
	return slices.ContainsFunc(t.doc.Events, func(ev *Event) bool { return (ev.open() || ev.undoing()) && u.holds(ev.ID) })
}

// nextUndos returns the armed step of a scope that ended last, and those that ended before it and are undone side by
// side with it.
func (t tree) nextUndos(u Unwind) (batch []*Event) {
	for {
		last := t.lastBefore(u, batch)
		if last == nil || slices.ContainsFunc(batch, func(ev *Event) bool { return !t.sideBySide(ev.ID, last.ID) }) {
			return batch
		}
		batch = append(batch, last)
	}
}

// lastBefore returns the armed step of a scope that ended last before those of a batch.
func (t tree) lastBefore(u Unwind, batch []*Event) (last *Event) {
	for _, ev := range t.doc.Events {
		before := len(batch) == 0 || ev.Order < batch[len(batch)-1].Order
		if before && (last == nil || ev.Order > last.Order) && u.holds(ev.ID) && t.armed(ev) {
			last = ev
		}
	}
	return last
}

// sideBySide reports that two steps are in different branches of one All.
func (t tree) sideBySide(a, b string) bool {
	for n := t.plan.Node(a); n != nil; n = n.Seq.Owner {
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
