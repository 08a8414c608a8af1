package flow

import "github.com/go-json-experiment/json/jsontext"

// childStep is an instance of a plan of its own.
type childStep struct{ baseStep }

func (k childStep) begin() {
	k.s.fold.moved = true
	p := parts{k.s}
	if state, ok := p.state(nil); ok {
		p.start(0, Start{State: state, Part: k.s.n.Child.Part})
	}
}

func (k childStep) done(m Done) {
	switch {
	case m.Outcome == OK && m.Result == nil && k.s.ev.Digest != "": // it was asked to end, and had ended
	case m.Outcome == OK:
		k.baseStep.done(m)
	default:
		k.failed(m)
	}
}

// failed takes the word of a child that has not ended well.
func (k childStep) failed(m Done) {
	ev := k.s.ev
	switch {
	case !ev.goesOn(): // it has said so before
	case ev.Ending != "":
		ev.Armed = m.Outcome == Withdrawn && k.s.fold.doc.Keep && k.s.n.undoable() // a rerun will have to undo it
		k.s.ended()
	default:
		k.s.fail(m.Error)
	}
}

func (k childStep) late(why string) {
	if k.s.stays() {
		k.s.halt(haltLate, why)
		return
	}
	parts{k.s}.cancel(Aborted, why)
}

func (k childStep) cancel() {
	if !k.s.ev.goesOn() && k.s.ev.Halt != haltLost {
		k.baseStep.cancel()
		return
	}
	parts{k.s}.cancel(Canceled, k.s.ev.Msg)
}

// skip ends the step without the child's result: what the child has done counts.
func (k childStep) skip(jsontext.Value) {
	if k.s.ev.Halt == haltLate {
		parts{k.s}.cancel(Skipped, k.s.ev.Msg)
		return
	}
	k.baseStep.skip(nil)
}
