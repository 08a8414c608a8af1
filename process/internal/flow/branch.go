package flow

import "time"

// branchStep is an All or an Any: its branches begin together. It ends by what its branches do.
type branchStep struct{ baseStep }

func (k branchStep) begin() {
	k.s.ev.Left = len(k.s.n.Branches)
	for _, b := range k.s.n.Branches {
		k.s.fold.begin(b.Steps[0])
	}
}

func (k branchStep) late(why string) {
	if !k.s.stays() {
		k.s.fail(why)
		return
	}
	k.s.ev.Timeout, k.s.fold.touched = time.Time{}, true // the steps in it go on, and have times of their own
}

// ifStep begins a branch that a function of the plan chooses.
type ifStep struct{ branchStep }

func (k ifStep) begin() {
	ev, n := k.s.ev, k.s.n
	ev.Branch = 2
	err := k.s.fold.user(func(state any) error {
		if n.Cond(state) {
			ev.Branch = 1
		}
		return nil
	})
	switch {
	case err != nil:
		k.s.halt(haltBegin, err.Error())
	case ev.Branch > len(n.Branches):
		k.s.finish(Completed)
	default:
		k.s.fold.begin(n.Branches[ev.Branch-1].Steps[0])
	}
}
