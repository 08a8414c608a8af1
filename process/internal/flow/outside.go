package flow

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// listener takes what comes from outside: signals, and events of the program.
type listener struct{ fold *fold }

// listens reports that the plan has a step that waits for a kind.
func (o listener) listens(sort channel.Kind) bool {
	for _, n := range o.fold.plan.nodes {
		if n.Verb == Wait && n.Sort == sort {
			return true
		}
	}
	return false
}

// signal gives a message to the step that waits for its kind, or keeps it.
func (o listener) signal(m Signal) {
	d := o.fold.doc
	for _, ev := range d.Events {
		s, ok := o.fold.step(ev)
		if ok && ev.Verb == Wait && ev.open() && ev.Halt != haltTake && s.n.Sort == m.Sort {
			o.fold.moved = true
			waitStep{baseStep{s}}.give(o.early(m))
			return
		}
	}
	if d.over() || d.Final != "" {
		o.fold.unheard(o.early(m), "")
		return
	}
	o.keep(m)
}

// keep keeps a signal for a step that is not there yet.
func (o listener) keep(m Signal) {
	d, x := o.fold.doc, o.early(m)
	if d.earlySize()+x.size() > earlyRoom {
		o.fold.refused = ErrEarly
		return
	}
	o.fold.touched = true
	if len(d.Early) == maxEarly {
		o.fold.unheard(d.Early[0], "")
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

func (o listener) early(m Signal) Early {
	return Early{Sort: string(m.Sort), At: o.fold.now, From: m.From, Body: m.Body}
}

// reply takes an event of the program: the answer to an Ask, or what a Wait waits for.
func (o listener) reply(m Reply) {
	if s, ok := o.fold.step(o.fold.doc.findRun(m.Path, m.Run)); ok && s.ev.Verb == Ask {
		lost(o).found(s, string(m.Sort), nil)
		if a, ok := s.n.answer(m.Sort); ok {
			askStep{baseStep{s}}.answer(a, m.Body)
			return
		}
	}
	if o.listens(m.Sort) {
		o.signal(Signal{Sort: m.Sort, Body: m.Body})
	}
}
