package flow

import "github.com/go-json-experiment/json/jsontext"

// baseStep does what most kinds of steps do. Only how a step begins differs for each.
type baseStep struct{ s step }

func (k baseStep) done(m Done) {
	if m.Outcome == OK {
		attempt{k.s, m, k.s.n.Apply}.success()
		return
	}
	attempt{k.s, m, nil}.failure()
}

func (k baseStep) late(why string) {
	if k.s.stays() {
		k.s.halt(haltLate, why)
		return
	}
	k.s.fail(why)
}

func (k baseStep) cancel() {
	if k.s.did() {
		k.s.arm(k.s.ev.Result)
	}
	k.s.close(Canceled)
}

// cancelAtWork cancels a step of which somebody else may be at work now, and has a grace to answer.
func (k baseStep) cancelAtWork() {
	ev, fold := k.s.ev, k.s.fold
	if !ev.goesOn() && ev.Halt != haltLost || ev.Due.After(fold.now) {
		k.cancel()
		return
	}
	ev.Status, ev.Halt, ev.Ending, fold.touched = InProcess, "", Canceled, true
	ev.Timeout = earliest(ev.Timeout, fold.now.Add(Grace))
}

func (k baseStep) undo() { undoing(k).begin() }

func (k baseStep) waitOn() { k.s.reopen() }

func (k baseStep) deny(why string) {
	if k.s.ev.Ending != "" {
		k.s.ended()
		return
	}
	k.s.fail(why)
}

func (k baseStep) skip(result jsontext.Value) {
	s, ev := k.s, k.s.ev
	switch {
	case ev.Halt == haltDoubt:
		ev.Digest = digest(result, "")
		s.arm(null(result))
	case s.did():
		s.arm(ev.Result)
	case result != nil:
		s.arm(result)
	}
	if ev.Ending == Canceled {
		s.close(Skipped)
		return
	}
	s.finish(Skipped)
}

func (k baseStep) retake(result jsontext.Value) { k.s.take(result, k.s.n.Apply) }
