package flow

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// askStep is a command that an event answers.
type askStep struct{ baseStep }

func (k askStep) begin() {
	s, f := k.s, k.s.fold
	f.moved = true
	var m channel.Message
	if err := f.user(func(state any) error { m = s.n.Command(state); return sendable(m, f.now) }); err != nil {
		s.halt(haltBegin, err.Error())
		return
	}
	f.send(wire.Wrapped{Message: m, ReplyTo: address(f.plan.Name, f.id, s.n.Path, s.ev.Run)})
}

// answer takes the answer.
func (k askStep) answer(a Answer, body jsontext.Value) {
	ev := k.s.ev
	switch {
	case !a.Refusal:
		if ev.Digest == "" {
			ev.Answer = a.Kind
		}
		attempt{k.s, Done{Outcome: OK, Result: body, Began: ev.Created}, a.Apply}.success()
	case !ev.open() || ev.Halt == haltTake || ev.Halt == haltFailed: // it comes too late, and has done nothing
	case ev.Ending != "":
		k.s.ended()
	default:
		k.refuse(a, body)
	}
}

// refuse takes a refusal.
func (k askStep) refuse(a Answer, body jsontext.Value) {
	if err := k.s.apply(a.Apply, body); err != nil {
		k.s.haltTaking(body, err)
		k.s.ev.Answer = a.Kind
		return
	}
	k.s.fail("refused: " + string(a.Kind))
}

func (k askStep) cancel() { k.cancelAtWork() }

func (k askStep) waitOn() { k.s.anew() }

func (k askStep) retake(result jsontext.Value) {
	a, _ := k.s.n.answer(k.s.ev.Answer)
	if a.Refusal {
		k.refuse(a, result)
		return
	}
	k.s.take(result, a.Apply)
}
