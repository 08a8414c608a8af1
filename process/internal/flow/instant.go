package flow

import "time"

// thenStep calls a function of the plan.
type thenStep struct{ baseStep }

func (k thenStep) begin() {
	k.s.ev.Timeout = time.Time{}
	k.s.take(nil, k.s.n.Apply)
}

// pivotStep is a step before which nothing is undone any more.
type pivotStep struct{ baseStep }

// begin lets go of all that was done, so that nothing takes it back any more. Undos that are under way go on.
func (k pivotStep) begin() {
	d := k.s.fold.doc
	k.s.ev.Timeout = time.Time{}
	d.Pivot, d.By = k.s.n.Name, time.Time{}
	d.forgetShelf()
	for _, ev := range d.Events {
		if ev.open() || ev.Status == Undoing || d.unwound(ev.ID) {
			continue
		}
		ev.Armed, ev.Result, ev.State = false, nil, nil
		if f := ev.Fan; f != nil {
			f.letGo()
			f.Undo = f.N
		}
	}
	k.s.take(nil, nil)
}
