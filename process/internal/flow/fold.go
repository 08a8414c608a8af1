package flow

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/wire"
)

// fold is one message on its way through a document. It collects what follows from the message.
type fold struct {
	plan *Plan
	id   string
	doc  *Instance
	now  time.Time

	out    []channel.Message // to be sent
	begins []*Node           // steps to be begun
	ends   []end             // steps that have ended, and that their scopes don't know of yet
	lines  []*Event          // steps that have left the document for the trail

	refused error // why the message is not taken
	touched bool  // the document has changed
	moved   bool  // the index shows something else
	undoes  bool  // a success is taken back, whatever room that takes meanwhile
}

// An end is the end of a step, for the scope that the step is in.
type end struct {
	n      *Node
	failed bool // for good; else the step ended well
	why    string
}

func (f *fold) send(m channel.Message) { f.out = append(f.out, m) }

// begin has a step begun.
func (f *fold) begin(n *Node) { f.begins = append(f.begins, n) }

// step returns an event with its node. ok is false for a step that the plan doesn't have.
func (f *fold) step(ev *Event) (s step, ok bool) {
	if ev == nil {
		return step{}, false
	}
	n := f.plan.Node(ev.ID)
	return step{f, ev, n}, n != nil
}

// note remembers what somebody did.
func (f *fold) note(n Note) {
	f.touched = true
	n.At, n.By, n.Why = f.now, shorten(n.By), shorten(n.Why)
	f.doc.Notes = append(f.doc.Notes, n)
	if extra := len(f.doc.Notes) - maxNotes; extra > 0 {
		f.doc.Notes = f.doc.Notes[extra:]
	}
}

// leave lets a step go to the trail, where it must fit into a row. The caller removes it from the document.
func (f *fold) leave(ev *Event) {
	if x := ev.Fan; x != nil {
		x.Effects, x.Worst = nil, x.Worst[:min(len(x.Worst), maxBadLine)]
	}
	f.lines = append(f.lines, ev)
	f.doc.Trailed++
}

// ownState returns the state in bytes of its own, as in a document that was read: a value that holds bytes twice would
// have to be encoded and read once more.
func (f *fold) ownState() jsontext.Value { return slices.Clone(f.doc.State) }

// user calls a function of the plan with the state.
func (f *fold) user(call func(state any) error) error {
	return guard(func() error {
		state, err := f.plan.Decode(f.doc.State)
		if err != nil {
			return err
		}
		return call(state)
	})
}

// sendable refuses a message of the program that could not be sent: nothing else that the fold emits would be, either.
func sendable(m channel.Message, now time.Time) error {
	if wire.IsNil(m) {
		return nil
	}
	err := wire.CheckMessage(m)
	if err == nil {
		_, err = wire.Compose(m, "/process", now)
	}
	return err
}

// guard calls a function of the plan. However the function ends, its caller goes on: a panic is an error, and so is
// runtime.Goexit.
func guard(f func() error) error { return contain.Apart(f) }
