package flow

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// ear takes what comes from outside: signals, and events of the program.
type ear struct{ *turn }

// listens reports that the plan has a step that waits for a kind.
func (e ear) listens(sort channel.Kind) bool {
	for _, n := range e.plan.nodes {
		if n.Verb == Wait && n.Sort == sort {
			return true
		}
	}
	return false
}

// signal gives a message to the step that waits for its kind, or keeps it.
func (e ear) signal(m Signal) {
	d := e.doc
	for _, ev := range d.Events {
		s, ok := e.step(ev)
		if ok && ev.Verb == Wait && ev.open() && ev.Halt != haltTake && s.n.Sort == m.Sort {
			e.moved = true
			e.give(s, e.early(m))
			return
		}
	}
	if d.over() || d.Final != "" {
		e.unheard(e.early(m), "")
		return
	}
	e.keep(m)
}

// keep keeps a signal for a step that is not there yet.
func (e ear) keep(m Signal) {
	d, x := e.doc, e.early(m)
	if d.earlySize()+x.size() > earlyRoom {
		e.refused = ErrEarly
		return
	}
	e.touched = true
	if len(d.Early) == maxEarly {
		e.unheard(d.Early[0], "")
		d.Early = slices.Delete(d.Early, 0, 1)
	}
	d.Early = append(d.Early, x)
}

// smallSignal is the largest body that fits in the room of early signals whatever others of its kind there are.
const smallSignal = 512

// KeepsEarly refuses a signal that comes early and for which there is no room. look reads the document of its instance.
// It is not called for a small signal.
func KeepsEarly(body jsontext.Value, look func() (Instance, error)) error {
	if len(body) <= smallSignal {
		return nil
	}
	d, err := look()
	if err != nil { // the store may be away, and a spool keep the signal: whoever folds it decides
		return nil
	}
	if d.over() || d.Final != "" || (Early{Body: body}).size()+d.earlySize() <= earlyRoom {
		return nil
	}
	for _, ev := range d.Events {
		if ev.Verb == Wait && ev.open() {
			return nil // it may be the one
		}
	}
	return fmt.Errorf("%w: %d bytes, of %d that are left; send the signal again when the instance waits for it", ErrEarly, len(body), max(0, earlyRoom-d.earlySize()))
}

func (e ear) early(m Signal) Early {
	return Early{Sort: string(m.Sort), At: e.now, From: m.From, Body: m.Body}
}

// unheard notes that nobody takes a signal.
func (e ear) unheard(x Early, why string) {
	e.note(Note{From: x.From, Do: "unheard", Path: x.Sort, Why: why})
}

// An Unreadable is the error of a function of the plan that can't decode a message. It has done nothing.
type Unreadable struct{ Err error }

// Error says what is wrong with the message.
func (x Unreadable) Error() string { return "it can't be read: " + x.Err.Error() }

// Unwrap returns the decoder's error.
func (x Unreadable) Unwrap() error { return x.Err }

// give gives a signal to a step that waits for its kind. One that the step can't read is noted, and the step waits on.
func (e ear) give(s step, x Early) bool {
	var wrong Unreadable
	apply, was, unreadable := s.n.Apply, *s.ev, false
	if apply != nil {
		apply = func(state any, body jsontext.Value) (any, error) {
			next, err := s.n.Apply(state, body)
			unreadable = errors.As(err, &wrong)
			return next, err
		}
	}
	if s.take(x.Body, apply); !unreadable {
		return true
	}
	*s.ev = was
	e.unheard(x, wrong.Error())
	return false
}

// giveEarly gives a step the first signal that was kept for it, and that it can read.
func (e ear) giveEarly(s step) {
	for x, ok := e.takeEarly(s.n.Sort); ok && !e.give(s, x); {
		x, ok = e.takeEarly(s.n.Sort)
	}
}

// takeEarly returns the first signal of a kind that was kept.
func (e ear) takeEarly(sort channel.Kind) (Early, bool) {
	d := e.doc
	for i, x := range d.Early {
		if x.Sort == string(sort) {
			if d.Early = slices.Delete(d.Early, i, i+1); len(d.Early) == 0 {
				d.Early = nil
			}
			return x, true
		}
	}
	return Early{}, false
}

// reply takes an event of the program: the answer to an Ask, or what a Wait waits for.
func (e ear) reply(m Reply) {
	if s, ok := e.step(e.doc.findRun(m.Path, m.Run)); ok && s.ev.Verb == Ask {
		s.found(string(m.Sort), nil)
		if a, ok := s.n.answer(m.Sort); ok {
			e.answer(s, a, m.Body)
			return
		}
	}
	if e.listens(m.Sort) {
		e.signal(Signal{Sort: m.Sort, Body: m.Body})
	}
}

// answer returns the answer to an Ask that a kind of event is.
func (n *Node) answer(sort channel.Kind) (Answer, bool) {
	i := slices.IndexFunc(n.Answers, func(a Answer) bool { return a.Kind == sort })
	if i < 0 {
		return Answer{}, false
	}
	return n.Answers[i], true
}

// answer takes the answer to an Ask.
func (e ear) answer(s step, a Answer, body jsontext.Value) {
	ev := s.ev
	switch {
	case !a.Refusal:
		if ev.Digest == "" {
			ev.Answer = a.Kind
		}
		word{s, Done{Outcome: OK, Result: body, Began: ev.Created}, a.Apply}.success()
	case !ev.open() || ev.Halt == haltTake || ev.Halt == haltFailed: // it comes too late, and has done nothing
	case ev.Ending != "":
		s.ended()
	default:
		e.refuse(s, a, body)
	}
}

// refuse takes the refusal of an Ask.
func (e ear) refuse(s step, a Answer, body jsontext.Value) {
	if err := s.apply(a.Apply, body); err != nil {
		s.haltTaking(body, err)
		s.ev.Answer = a.Kind
		return
	}
	s.fail("refused: " + string(a.Kind))
}

// did reports that a step whose result could not be taken has done something, and not been refused.
func (s step) did() bool {
	a, _ := s.n.answer(s.ev.Answer)
	return s.ev.Halt == haltTake && (s.ev.Verb == Do || s.ev.Verb == Child || s.ev.Verb == Ask && !a.Refusal)
}
