package flow

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// waitStep waits for a signal or an event.
type waitStep struct{ baseStep }

// begin gives the step the first signal that was kept for it, and that it can read.
func (k waitStep) begin() {
	d := k.s.fold.doc
	k.s.fold.moved = true
	for x, ok := d.takeEarly(k.s.n.Sort); ok && !k.give(x); {
		x, ok = d.takeEarly(k.s.n.Sort)
	}
}

func (k waitStep) waitOn() {
	k.s.reopen()
	k.begin()
}

// An Unreadable is the error of a function of the plan that can't decode a message. It has done nothing.
type Unreadable struct{ Err error }

// Error says what is wrong with the message.
func (x Unreadable) Error() string { return "it can't be read: " + x.Err.Error() }

// Unwrap returns the decoder's error.
func (x Unreadable) Unwrap() error { return x.Err }

// give gives a signal to the step. A signal that the step can't read is noted, and the step waits on.
func (k waitStep) give(x Early) bool {
	s := k.s
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
	s.fold.unheard(x, wrong.Error())
	return false
}

// unheard notes that nobody takes a signal.
func (f *fold) unheard(x Early, why string) {
	f.note(Note{From: x.From, Do: "unheard", Path: x.Sort, Why: why})
}

// takeEarly returns the first signal of a kind that was kept.
func (d *Instance) takeEarly(sort channel.Kind) (Early, bool) {
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
