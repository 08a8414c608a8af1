package flow

import (
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// opening is a step that begins.
type opening struct{ step }

// begin begins the step.
func (o opening) begin() {
	ev, n := o.ev, o.n
	ev.Status, ev.Halt, ev.Msg, ev.Timeout = InProcess, "", "", n.deadline(o.now)
	switch n.Verb {
	case Do:
		ev.Attempt++
		o.sendBegin(o.beginMessage(), 0)
	case Ask:
		o.moved = true
		o.ask()
	case Wait:
		o.moved = true
		ear{o.turn}.giveEarly(o.step)
	case Sleep:
		o.sleep()
	case Then:
		ev.Timeout = time.Time{}
		o.take(nil, n.Apply)
	case Pivot:
		ev.Timeout = time.Time{}
		o.pivot()
	case If:
		o.choose()
	case All, Any:
		ev.Left = len(n.Branches)
		for _, b := range n.Branches {
			o.push(b.Steps[0])
		}
	case Each, Split:
		o.moved = true
		fan(o).begin()
	case Child:
		o.moved = true
		p := parts(o)
		if state, ok := p.state(nil); ok {
			p.start(0, Start{State: state, Part: n.Child.Part})
		}
	}
}

func (o opening) ask() {
	var m channel.Message
	if err := o.user(func(state any) error { m = o.n.Command(state); return sendable(m, o.now) }); err != nil {
		o.halt(haltBegin, err.Error())
		return
	}
	o.send(wire.Wrapped{Message: m, ReplyTo: address(o.plan.Name, o.id, o.n.Path, o.ev.Run)})
}

const lastYear = 9999 // that a document can hold

func (o opening) sleep() {
	var until time.Time
	err := o.user(func(state any) error { until = o.n.Until(state, o.now); return nil })
	o.moved = true
	switch {
	case err != nil:
		o.halt(haltBegin, err.Error())
	case until.Year() > lastYear:
		o.halt(haltBegin, fmt.Sprintf("it is to sleep until the year %d; want at most %d", until.Year(), lastYear))
	case !until.After(o.now):
		o.take(nil, nil)
	default:
		o.ev.Timeout = until
	}
}

// pivot lets go of all that was done, so that nothing takes it back any more. Undos that are under way go on.
func (o opening) pivot() {
	d := o.doc
	d.Pivot, d.By = o.n.Name, time.Time{}
	shelf{o.turn}.letGo()
	for _, ev := range d.Events {
		if ev.open() || ev.Status == Undoing || d.unwound(ev.ID) {
			continue
		}
		ev.Armed, ev.Result, ev.State = false, nil, nil
		if f := ev.Fan; f != nil {
			f.letGo()
			f.Undo = f.N
		}
	}
	o.take(nil, nil)
}

// choose begins a branch of an If.
func (o opening) choose() {
	ev, n := o.ev, o.n
	ev.Branch = 2
	err := o.user(func(state any) error {
		if n.Cond(state) {
			ev.Branch = 1
		}
		return nil
	})
	switch {
	case err != nil:
		o.halt(haltBegin, err.Error())
	case ev.Branch > len(n.Branches):
		o.finish(Completed)
	default:
		o.push(n.Branches[ev.Branch-1].Steps[0])
	}
}
