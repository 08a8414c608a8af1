package flow

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// step is an event of the document with its node, in a turn.
type step struct {
	*turn
	ev *Event
	n  *Node
}

// beginMessage returns the begin of an attempt at the step.
func (s step) beginMessage() Begin {
	return Begin{
		Plan: s.plan.Name, Queue: s.n.By, ID: s.id, Version: s.doc.Version, Part: s.doc.Part, Path: s.n.Path, Name: s.n.Name, Run: s.ev.Run,
		Attempt: s.ev.Attempt, Key: s.key(wholeStep, 0), State: s.doc.State,
	}
}

func (s step) key(item, undo int) string {
	path, run := s.ev.Origin()
	return key(s.plan.Name, s.id, path, run, item, undo)
}

// sendBegin sends a begin, with what is left of the time.
func (s step) sendBegin(m Begin, delay time.Duration) {
	if until := s.until(); m.Undo == 0 && !until.IsZero() {
		m.Within = max(until.Sub(s.now)-delay, time.Millisecond)
	}
	if delay > 0 {
		s.send(channel.After(delay, m))
		return
	}
	s.send(m)
}

// until returns when the step must have ended, or zero.
func (s step) until() time.Time { return earliest(s.ev.Timeout, earliest(s.doc.By, s.doc.Limit)) }

// earliest returns the earlier one of two deadlines. Zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// stays reports that the instance can't go on if the step fails: it is past the pivot, or the whole is, and it has no
// other way.
func (s step) stays() bool {
	return (s.doc.Pivot != "" || s.doc.Firm) && s.doc.Final == "" && !scopes{s.turn}.caught(s.n)
}

// take ends the step well, with a result that apply takes into the state. Where that fails, the step is stuck, and
// keeps the result. A step that is ending has still done what it has done.
func (s step) take(result jsontext.Value, apply func(any, jsontext.Value) (any, error)) {
	ev := s.ev
	if ev.Ending == Aborted && s.stays() {
		ev.Ending = "" // the pivot has come meanwhile
	}
	if ev.Ending != "" {
		s.arm(result)
		if ev.Ending == Canceled {
			s.close(Completed)
			return
		}
		s.ended()
		return
	}
	before := s.doc.State
	if err := s.apply(apply, result); err != nil {
		s.haltTaking(result, err)
		return
	}
	s.arm(result)
	if n := s.doc.size(); n > MaxSize && (ev.Result != nil || len(s.doc.State) > len(before)) {
		s.doc.State = before
		s.haltTaking(result, tooLarge(n))
		return
	}
	ev.Msg = ""
	s.finish(Completed)
}

// haltTaking makes a step stuck whose result could not be taken, and keeps the result.
func (s step) haltTaking(result jsontext.Value, err error) {
	s.halt(haltTake, err.Error())
	s.ev.Armed, s.ev.State, s.ev.Result = false, nil, result
}

// arm keeps what an undo will need.
func (s step) arm(result jsontext.Value) {
	ev, n := s.ev, s.n
	ev.Result, ev.State = nil, nil
	ev.Armed = n.undoable()
	if ev.Armed && n.Verb != Child {
		ev.Result, ev.State = result, s.ownState()
	}
}

// ownState returns the state in bytes of its own, as in a document that was read: a value that holds bytes twice would
// have to be encoded and read once more.
func (t *turn) ownState() jsontext.Value { return slices.Clone(t.doc.State) }

// apply calls a function of the plan that takes results into the state.
func (s step) apply(f func(any, jsontext.Value) (any, error), results ...jsontext.Value) error {
	s.touched = true
	if f == nil {
		return nil
	}
	var form jsontext.Value
	err := s.user(func(state any) (err error) {
		for _, r := range results {
			if state, err = f(state, r); err != nil {
				return err
			}
		}
		form, err = s.plan.Encode(s.doc.State, state)
		return err
	})
	if err == nil {
		s.doc.State = form
	}
	return err
}

// halt makes the step wait until somebody acts.
func (s step) halt(reason, why string) {
	s.touched, s.moved = true, true
	s.ev.Status, s.ev.Halt, s.ev.Msg = Stuck, reason, shorten(why)
	s.ev.Ending, s.ev.Timeout, s.ev.Due = "", time.Time{}, time.Time{}
}

// close ends the step, and goes no further.
func (s step) close(status Status) {
	ev := s.ev
	s.touched = true
	s.doc.Ends++
	ev.Order = s.doc.Ends
	ev.Status, ev.Ending, ev.Halt, ev.Ended, ev.Timeout, ev.Due = status, "", "", s.now, time.Time{}, time.Time{}
	if !ev.Armed {
		ev.Result, ev.State = nil, nil
	}
	ev.Answer, ev.Lost = "", nil
}

// finish ends the step well, and goes on.
func (s step) finish(status Status) {
	s.close(status)
	scopes{s.turn}.after(s.n)
}

// ended ends a step that was ending, now that all it has begun has answered, or has had its grace.
func (s step) ended() {
	switch s.ev.Ending {
	case Aborted:
		s.fail(s.ev.Msg)
	case Skipped:
		s.finish(Skipped)
	default:
		s.close(Canceled)
	}
}

// late ends a step whose time is over.
func (s step) late() {
	ev, n := s.ev, s.n
	why := "no end within " + ev.Timeout.Sub(ev.Created).String()
	if n := len(ev.Failures); n > 0 {
		why += ": " + ev.Failures[n-1].Msg
	}
	switch {
	case s.stays() && len(n.Branches) > 0:
		ev.Timeout, s.touched = time.Time{}, true // the steps in it go on, and have times of their own
	case s.stays():
		s.halt(haltLate, why)
	case ev.Fan != nil:
		fan{s}.stop(why)
	case n.Verb == Child:
		parts{s}.cancel(Aborted, why)
	default:
		s.fail(why)
	}
}

// fail ends a step that has failed for good. Since the pivot it is stuck instead, unless the plan has another way.
func (s step) fail(why string) {
	s.touched = true
	if s.stays() {
		s.halt(haltFailed, why)
		return
	}
	s.ev.Msg = shorten(why)
	s.close(Aborted)
	scopes{s.turn}.stepFailed(s.n, s.ev.Msg)
}

// cancel cancels a step that is open. An agent that may be at work has a grace to answer.
func (s step) cancel() {
	ev := s.ev
	switch {
	case ev.Ending != "", ev.Halt == haltDoubt && ev.Fan == nil: // whoever knows what it has done ends it
		ev.Ending, s.touched = Canceled, true
	case ev.Fan != nil:
		parts{s}.cancel(Canceled, ev.Msg)
		fan{s}.goOn()
	case ev.Verb == Child && (ev.goesOn() || ev.Halt == haltLost):
		parts{s}.cancel(Canceled, ev.Msg)
	case (ev.Verb == Do || ev.Verb == Ask) && (ev.goesOn() || ev.Halt == haltLost) && !ev.Due.After(s.now):
		ev.Status, ev.Halt, ev.Ending, s.touched = InProcess, "", Canceled, true
		ev.Timeout = earliest(ev.Timeout, s.now.Add(Grace))
	case s.did():
		s.arm(ev.Result)
		s.close(Canceled)
	default:
		s.close(Canceled)
	}
}
