package flow

import "slices"

// Stranded is a set of steps, by name and outermost first. An instance that waits for them can't be carried.
type Stranded struct {
	Waits []string
	Cause string // the step that keeps it: one of those, or one that was done and may be undone
}

// Strands returns what an upgrade to another plan can't carry.
func (p *Plan) Strands(to *Plan, rename func(string) string) (all []Stranded) {
	for _, set := range waiting(p.Root, nil) {
		d := waitingFor(p, set)
		if _, cause := d.carry(carrier{old: &d, to: to, rename: rename, patient: true}); cause != "" {
			all = append(all, Stranded{set, cause})
		}
	}
	return all
}

// waitingFor returns an instance that waits for a set of steps, and has done all that may be undone before.
func waitingFor(p *Plan, set []string) (d Instance) {
	d.Status = InProcess
	last := p.Step(set[len(set)-1])
	p.Nodes(func(of *Plan, n *Node) {
		ev := &Event{ID: n.Path, Verb: n.Verb, Name: n.Name, Status: InProcess, Left: len(n.Branches)}
		switch {
		case of != p:
			return
		case slices.Contains(set, n.Name):
			if n.Verb == If {
				ev.Left, ev.Branch = 0, 1+slices.IndexFunc(n.Branches, func(s *Seq) bool { return within(last.Path, s.Path) })
			}
		case n.undoable() && mayBeDone(n, last):
			ev.Status, ev.Armed = Completed, true
		default:
			return
		}
		if n.Verb == Each || n.Verb == Split {
			ev.Fan = &Fan{}
			if ev.Armed {
				ev.Fan.arm(0, nil)
			}
		}
		d.Events = append(d.Events, ev)
	})
	return d
}

// mayBeDone reports that a step may have ended well, and may still be undone, while another one is open.
func mayBeDone(n, open *Node) bool {
	for o := open; o != nil; o = o.Seq.Owner {
		s := o.Seq
		switch {
		case within(n.Path, s.Path):
			return n.Path < o.Path
		case s.Alt && within(n.Path, s.Owner.Path): // it was taken back before the Else
			return false
		case s.Owner != nil && s.Owner.Verb == If && within(n.Path, s.Owner.Path): // the other branch
			return false
		case s.Owner != nil && within(n.Path, s.Owner.Path): // another branch of All or Any
			return true
		}
	}
	return false
}
