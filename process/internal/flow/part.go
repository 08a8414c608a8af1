package flow

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// parts is a step with the documents of its own that it has begun: a child for each item, pages of items, or one child.
type parts struct{ step }

// start starts a part of the step.
func (p parts) start(i int, m Start) {
	m.Plan, m.ID, m.Version = p.plan.Name, ChildID(p.id, p.n.Path, p.ev.Run, i), p.doc.Version
	m.Parent = &Parent{ID: p.id, Path: p.n.Path, Run: p.ev.Run, Index: i}
	m.By, m.Firm = p.until(), p.stays()
	p.send(m)
}

// state returns the state of a child, or makes the step stuck. Without an item it follows from the own state.
func (p parts) state(item jsontext.Value) (state jsontext.Value, ok bool) {
	err := guard(func() (err error) {
		var own any
		if item == nil {
			own, err = p.plan.Decode(p.doc.State)
		}
		if err == nil {
			state, err = p.n.Start(own, item)
		}
		return err
	})
	if most := MaxSize - resultRoom; err == nil && len(state) > most {
		err = fmt.Errorf("the state of a child has %d bytes; want at most %d", len(state), most)
	}
	if err != nil {
		p.halt(haltBegin, err.Error())
	}
	return state, err == nil
}

// ask asks a part of the step for something.
func (p parts) ask(i int, act string, undo int) {
	m := Act{Plan: p.plan.Name, ID: ChildID(p.id, p.n.Path, p.ev.Run, i), Do: act, Parent: true, Undo: undo}
	if act == ActCancel {
		m.Why, m.Keep = "the step "+p.n.Name+" of "+p.id+" ends", p.doc.Keep
	}
	p.send(m)
}

// cancel cancels what the step has begun, and waits for the answers before the step ends. Items of agents have a grace.
func (p parts) cancel(ending Status, why string) {
	ev, f := p.ev, p.ev.Fan
	ev.Status, ev.Halt, ev.Ending, ev.Msg, p.touched = InProcess, "", ending, shorten(why), true
	if f != nil {
		f.stop()
	}
	if f != nil && !f.Paged && p.n.Sub == nil {
		ev.Timeout = earliest(ev.Timeout, p.now.Add(Grace))
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

// failed takes the word of a Sub's child that has not ended well.
func (p parts) failed(m Done) {
	ev := p.ev
	switch {
	case !ev.goesOn(): // it has said so before
	case ev.Ending != "":
		ev.Armed = m.Outcome == Withdrawn && p.doc.Keep && p.n.undoable() // a rerun will have to undo it
		p.ended()
	default:
		p.fail(m.Error)
	}
}

// says takes the word of a part that is stuck, or moves again, also of one that has ended: the undo of a late success
// may be stuck there. Of several words the newest counts, whenever it comes: each part that was stuck has a word that
// it moves again.
func (p parts) says(m Done) {
	ev, i := p.ev, 0
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
		x.Seq, x.Msg, p.touched, p.moved = m.Seq, "", true, true
		if m.Outcome == Halted {
			x.Msg = shorten("stuck: " + m.Error)
		}
	}
}
