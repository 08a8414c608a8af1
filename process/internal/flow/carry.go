package flow

import "slices"

// Carry returns the instance as one of another plan, if the steps that are open, or may still be undone, are in that
// plan too, by their names, at the same place among the steps that they belong to. Steps whose children are open can't
// be carried. Messages that are under way still find their steps.
func (d Instance) Carry(to *Plan, rename func(string) string) (Instance, bool) {
	next, cause := d.carry(carrier{old: &d, to: to, rename: rename, shift: d.Run + 1})
	if cause != "" {
		return d, false
	}
	return next, true
}

// carry returns the name of a step that keeps the instance from being carried, or "".
func (d Instance) carry(c carrier) (next Instance, cause string) {
	to, rename := c.to, c.rename
	next = d
	next.Events = make([]*Event, 0, len(d.Events))
	for _, old := range d.Events {
		ev, ok := c.event(old)
		if !ok {
			return d, old.Name
		}
		next.Events = append(next.Events, ev)
	}
	if len(d.Shelf) > 0 { // their rows have the old paths
		return d, d.Shelf[0].ID
	}
	for _, u := range d.Unwinds {
		if u.Scope != "" {
			return d, u.Scope
		}
	}
	if d.Pivot != "" {
		next.Pivot = rename(d.Pivot)
	}
	if d.Reached != "" {
		next.Reached = rename(d.Reached)
	}
	next.Run += c.shift // so that no step that begins later is taken for one that began before
	next.Version, next.Print = to.Version, to.whole.Print
	return next, ""
}

// carrier takes events over to another plan.
type carrier struct {
	old    *Instance
	to     *Plan
	rename func(string) string
	shift  int

	patient bool // parts that are open may end first
}

// node returns the step in the other plan, or nil.
func (c carrier) node(ev *Event) *Node {
	n := c.to.Step(c.rename(ev.Name))
	if n == nil || n.Verb != ev.Verb {
		return nil
	}
	return n
}

func (c carrier) event(old *Event) (*Event, bool) {
	n := c.node(old)
	alive := old.open() || old.Status == Undoing || old.undoing() || old.Armed || old.Fan != nil && len(old.Fan.Armed) > 0
	inParts := n != nil && (old.Fan != nil || n.Child != nil) && !(c.patient && old.open())
	if alive && (n == nil || inParts || old.open() && !c.fits(old, n) || old.Armed && !n.undoable()) {
		return nil, false
	}
	ev := *old
	ev.Was = append(slices.Clone(old.Was), PathRun(old.ID, old.Run))
	ev.Run += c.shift
	if ev.ID = "old." + old.ID; n != nil {
		ev.ID, ev.Name = n.Path, n.Name
	}
	return &ev, true
}

// fits reports that an open step is where it was: in the same branch of the same step.
func (c carrier) fits(ev *Event, n *Node) bool {
	if ev.Left > len(n.Branches) || ev.Branch > len(n.Branches) {
		return false
	}
	owner, branch, within := OwnerOf(ev.ID)
	if !within {
		return n.Seq == c.to.Root
	}
	old := c.old.find(owner)
	if old == nil {
		return false
	}
	o := c.node(old)
	return o != nil && n.Seq.Owner == o && n.Seq.Path == o.Path+"."+branch
}
