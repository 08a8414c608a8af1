package flow

import "time"

// scopes are the sequences of a plan with the steps that they belong to. They know what follows when a step ends, and
// what is taken back when one fails.
type scopes struct{ fold *fold }

// run goes on until all that has begun waits for something: after the steps that have ended, with those to be begun,
// and with what is to be taken back.
func (x scopes) run() {
	for goesOn := true; goesOn; goesOn = x.unwind() {
		x.follow()
		for f := x.fold; len(f.begins) > 0 && !f.doc.over(); {
			n := f.begins[0]
			f.begins = f.begins[1:]
			x.begin(n)
			x.follow()
		}
		x.fold.begins = nil
	}
}

// begin begins a step. One that has ended with an outcome that nobody knows goes on with the same key, so that it has
// one effect in all.
func (x scopes) begin(n *Node) {
	d := x.fold.doc
	if n.Seq == x.fold.plan.Root {
		d.Reached = n.Name
	}
	ev := d.find(n.Path)
	if ev != nil && ev.unknown() {
		ev.Base = ev.Attempt
		ev.Ended, ev.Order = time.Time{}, 0
	} else {
		ev = &Event{ID: n.Path, Run: d.Run, Verb: n.Verb, Name: n.Name, Created: x.fold.now}
		d.Events = append(d.Events, ev)
	}
	s := step{x.fold, ev, n}
	s.reopen()
	s.kind().begin()
}
