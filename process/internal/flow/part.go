package flow

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// inParts reports that what the step begins are documents of their own: children, or pages of items.
func (s step) inParts() bool { return s.n.Child != nil || s.ev.Fan != nil && s.ev.Fan.Paged }

// parts is a step with the documents of its own that it has begun: a child for each item, pages of items, or one child.
type parts struct{ s step }

// start starts a part of the step.
func (p parts) start(i int, m Start) {
	s := p.s
	m.Plan, m.ID, m.Version = s.fold.plan.Name, ChildID(s.fold.id, s.n.Path, s.ev.Run, i), s.fold.doc.Version
	m.Parent = &Parent{ID: s.fold.id, Path: s.n.Path, Run: s.ev.Run, Index: i}
	m.By, m.Firm = s.until(), s.stays()
	s.fold.send(m)
}

// state returns the state of a child, or makes the step stuck. Without an item it follows from the own state.
func (p parts) state(item jsontext.Value) (state jsontext.Value, ok bool) {
	s := p.s
	err := guard(func() (err error) {
		var own any
		if item == nil {
			own, err = s.fold.plan.Decode(s.fold.doc.State)
		}
		if err == nil {
			state, err = s.n.Start(own, item)
		}
		return err
	})
	if most := MaxSize - resultRoom; err == nil && len(state) > most {
		err = fmt.Errorf("the state of a child has %d bytes; want at most %d", len(state), most)
	}
	if err != nil {
		s.halt(haltBegin, err.Error())
	}
	return state, err == nil
}

// ask asks a part of the step for something.
func (p parts) ask(i int, act string, undo int) {
	s := p.s
	m := Act{Plan: s.fold.plan.Name, ID: ChildID(s.fold.id, s.n.Path, s.ev.Run, i), Do: act, Parent: true, Undo: undo}
	if act == ActCancel {
		m.Why, m.Keep = "the step "+s.n.Name+" of "+s.fold.id+" ends", s.fold.doc.Keep
	}
	s.fold.send(m)
}

// cancel cancels what the step has begun, and waits for the answers before the step ends. Items of agents have a grace.
func (p parts) cancel(ending Status, why string) {
	ev, f := p.s.ev, p.s.ev.Fan
	ev.Status, ev.Halt, ev.Ending, ev.Msg, p.s.fold.touched = InProcess, "", ending, shorten(why), true
	if f != nil {
		f.stop()
	}
	if !p.s.inParts() {
		ev.Timeout = earliest(ev.Timeout, p.s.fold.now.Add(Grace))
		return
	}
	ev.Timeout = time.Time{} // each part has an alarm of its own
	if f == nil {
		p.ask(0, ActCancel, 0)
		return
	}
	for i := range f.N {
		if !Bit(f.Ended, i) && (f.Paged || i < f.Next) {
			p.ask(i, ActCancel, 0)
		}
	}
}

// says takes the word of a part that is stuck, or moves again. An ended part has such a word, too: the undo of a late
// success may be under way there, or stuck. Of several words the newest counts, whenever it comes: each part that was
// stuck has a word that it moves again.
func (p parts) says(m Done) {
	ev, i := p.s.ev, 0
	if m.Item != nil {
		i = *m.Item
	}
	at := 0
	for at < len(ev.StuckParts) && ev.StuckParts[at].Index != i {
		at++
	}
	if at == len(ev.StuckParts) {
		ev.StuckParts = append(ev.StuckParts, StuckPart{Index: i})
	}
	if x := &ev.StuckParts[at]; x.Seq < m.Seq {
		x.Seq, x.Msg, x.Undoes, p.s.fold.touched, p.s.fold.moved = m.Seq, "", m.Undoes, true, true
		if m.Outcome == Halted {
			x.Msg = shorten("stuck: " + m.Error)
		}
	}
}
