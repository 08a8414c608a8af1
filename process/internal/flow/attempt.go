package flow

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// attempt is the end of an attempt at a step, or the answer to an Ask.
type attempt struct {
	s     step
	m     Done
	apply func(state any, result jsontext.Value) (any, error) // takes a success into the state
}

// success takes the success of a step. The first one ends it. One that comes after another end is taken back.
func (a attempt) success() {
	ev, this := a.s.ev, digest(a.m.Result, a.m.Effect)
	switch {
	case a.known(this):
	case ev.open() && ev.Digest == "":
		ev.Digest, ev.Began, ev.Worker = this, a.m.Began, a.m.Worker
		a.s.take(a.m.Result, a.apply)
	case ev.Digest != "" && (a.m.Effect == "" || !a.s.n.undoable()): // the same one, as far as can be told
		if len(ev.Twice) < maxTwice {
			ev.Twice, a.s.fold.touched = append(ev.Twice, this), true
		}
	default:
		a.late(this)
	}
}

// ShowAfter is how long an agent works, or a step waits for its next attempt, before the index shows it.
const ShowAfter = 5 * time.Second

// known reports that a success has been taken or counted before.
func (a attempt) known(this string) bool {
	same := func(u *Undo) bool { return u.Digest == this }
	return this == a.s.ev.Digest || slices.Contains(a.s.ev.Twice, this) || slices.ContainsFunc(a.s.ev.Undos, same)
}

// late takes back a success that came after the end of the step, or after another one.
func (a attempt) late(this string) {
	ev := a.s.ev
	a.s.fold.touched = true
	ev.Late++
	if ev.Digest == "" {
		ev.Digest = this
	}
	if a.s.n.undoable() {
		undoing{a.s}.start(&Undo{N: len(ev.Undos) + 1, State: a.s.fold.ownState(), Result: a.m.Result, Digest: this, Late: true})
	}
}

// failure takes the failure of an attempt.
func (a attempt) failure() {
	s, ev, m := a.s, a.s.ev, a.m
	late := ev.Halt == haltLate // nobody waits for it any more, but now its outcome is known
	switch doubts := ev.Halt == haltDoubt; {
	case !ev.open():
		s.noteUnknown(m)
		return
	case ev.Halt != "" && !late && !doubts, m.Attempt != ev.Attempt, doubts && m.Outcome == Unknown:
		return
	case doubts:
		s.resume()
		late = false
	}
	s.fold.touched = true
	ev.Began, ev.Worker = m.Began, m.Worker
	if m.Outcome == Unknown {
		m.Error = outcomeUnknown + m.Error
		s.doubt(m.Error)
	}
	ev.Failures = noteFailure(ev.Failures, Failure{N: m.Attempt, At: s.fold.now, Began: m.Began, Msg: shorten(m.Error)})
	delay, again := pace{s}.again(m, ev.Attempt-ev.Base)
	switch {
	case m.Outcome == Unknown:
	case late:
		ev.Halt = haltFailed
	case ev.Ending != "":
		ev.Msg = shorten(m.Error)
		s.ended()
	case again:
		ev.Attempt++
		ev.Due = s.fold.now.Add(delay)
		s.fold.moved = s.fold.moved || delay >= ShowAfter
		s.sendBegin(s.beginMessage(), delay)
	default:
		s.fail(m.Error)
	}
}
