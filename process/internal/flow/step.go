package flow

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// step is an event of the document with its node, in a fold. Its methods know nothing of what the step does, nor of
// what follows when it ends: an end goes to the fold.
type step struct {
	fold *fold
	ev   *Event
	n    *Node
}

// tree returns the plan and the document.
func (s step) tree() tree { return tree{s.fold.plan, s.fold.doc} }

// beginMessage returns the begin of an attempt at the step.
func (s step) beginMessage() Begin {
	d := s.fold.doc
	return Begin{
		Plan: s.fold.plan.Name, Queue: s.n.By, ID: s.fold.id, Version: d.Version, Part: d.Part, Path: s.n.Path, Name: s.n.Name, Run: s.ev.Run,
		Attempt: s.ev.Attempt, Key: s.key(wholeStep, 0), State: d.State,
	}
}

func (s step) key(item, undo int) string {
	path, run := s.ev.Origin()
	return key(s.fold.plan.Name, s.fold.id, path, run, item, undo)
}

// sendBegin sends a begin, with what is left of the time.
func (s step) sendBegin(m Begin, delay time.Duration) {
	if until := s.until(); m.Undo == 0 && !until.IsZero() {
		m.Within = max(until.Sub(s.fold.now)-delay, time.Millisecond)
	}
	if delay > 0 {
		s.fold.send(channel.After(delay, m))
		return
	}
	s.fold.send(m)
}

// until returns when the step must have ended, or zero.
func (s step) until() time.Time {
	return earliest(s.ev.Timeout, earliest(s.fold.doc.By, s.fold.doc.Limit))
}

// stays reports that the instance can't go on if the step fails: it is past the pivot, or the whole is, and it has no
// other way.
func (s step) stays() bool {
	d := s.fold.doc
	return (d.Pivot != "" || d.Firm) && d.Final == "" && !s.tree().caught(s.n)
}

// take ends the step well, with a result that apply takes into the state. Where that fails, the step is stuck, and
// keeps the result. A step that is ending has still done what it has done.
func (s step) take(result jsontext.Value, apply func(any, jsontext.Value) (any, error)) {
	ev, d := s.ev, s.fold.doc
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
	before := d.State
	if err := s.apply(apply, result); err != nil {
		s.haltTaking(result, err)
		return
	}
	s.arm(result)
	if n := d.size(); n > MaxSize && (ev.Result != nil || len(d.State) > len(before)) {
		d.State = before
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
		ev.Result, ev.State = result, s.fold.ownState()
	}
}

// apply calls a function of the plan that takes results into the state.
func (s step) apply(f func(any, jsontext.Value) (any, error), results ...jsontext.Value) error {
	s.fold.touched = true
	if f == nil {
		return nil
	}
	var form jsontext.Value
	err := s.fold.user(func(state any) (err error) {
		for _, r := range results {
			if state, err = f(state, r); err != nil {
				return err
			}
		}
		form, err = s.fold.plan.Encode(s.fold.doc.State, state)
		return err
	})
	if err == nil {
		s.fold.doc.State = form
	}
	return err
}

// did reports that a step whose result could not be taken has done something, and not been refused.
func (s step) did() bool {
	a, _ := s.n.answer(s.ev.Answer)
	return s.ev.Halt == haltTake && (s.ev.Verb == Do || s.ev.Verb == Child || s.ev.Verb == Ask && !a.Refusal)
}

// answer returns the answer to an Ask that a kind of event is.
func (n *Node) answer(sort channel.Kind) (Answer, bool) {
	i := slices.IndexFunc(n.Answers, func(a Answer) bool { return a.Kind == sort })
	if i < 0 {
		return Answer{}, false
	}
	return n.Answers[i], true
}

// halt makes the step wait until somebody acts.
func (s step) halt(reason, why string) {
	s.fold.touched, s.fold.moved = true, true
	s.ev.Status, s.ev.Halt, s.ev.Msg = Stuck, reason, shorten(why)
	s.ev.Ending, s.ev.Timeout, s.ev.Due = "", time.Time{}, time.Time{}
}

// reopen takes a step out of its halt, with the time that it has from now on.
func (s step) reopen() {
	s.ev.Status, s.ev.Halt, s.ev.Msg, s.ev.Timeout = InProcess, "", "", s.n.deadline(s.fold.now)
}

// anew begins a step once more that is known to have failed, with a key of its own.
func (s step) anew() {
	s.close(Aborted)
	s.fold.doc.Run++
	s.fold.begin(s.n)
}

// close ends the step, and nothing follows.
func (s step) close(status Status) {
	ev, d := s.ev, s.fold.doc
	s.fold.touched = true
	d.Ends++
	ev.Order = d.Ends
	ev.Status, ev.Ending, ev.Halt, ev.Ended, ev.Timeout, ev.Due = status, "", "", s.fold.now, time.Time{}, time.Time{}
	if !ev.Armed {
		ev.Result, ev.State = nil, nil
	}
	ev.Answer, ev.Lost = "", nil
}

// finish ends the step well.
func (s step) finish(status Status) {
	s.close(status)
	s.fold.ends = append(s.fold.ends, end{n: s.n})
}

// fail ends a step that has failed for good. Since the pivot it is stuck instead, unless the plan has another way.
func (s step) fail(why string) {
	s.fold.touched = true
	if s.stays() {
		s.halt(haltFailed, why)
		return
	}
	s.ev.Msg = shorten(why)
	s.close(Aborted)
	s.fold.ends = append(s.fold.ends, end{s.n, true, s.ev.Msg})
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
