package flow

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// settler ends a turn.
type settler struct{ *turn }

// settle sets the status, sends the alarm, and says what the index, the trail and the parent are to know.
func (s settler) settle() {
	d := s.doc
	if now := s.status(); now != d.Status {
		d.Status, s.moved = now, true
		s.announce()
	}
	s.compact()
	shelf(s).put()
	clock(s).arm()
	if d.Parent != nil {
		s.tellStuck()
	}
	if index := s.moved && d.Parent == nil; index || len(s.lines) > 0 {
		if index {
			d.Seq++
		}
		s.send(Record{Plan: s.plan.Name, ID: s.id, Lines: s.lines})
	}
}

// announce tells the program that the instance has ended, or is stuck. A function that fails announces nothing: the
// instance has ended all the same.
func (s settler) announce() {
	d := s.doc
	if s.plan.Ended == nil || !d.over() && d.Status != Stuck {
		return
	}
	var m channel.Message
	err := s.user(func(state any) error {
		m = s.plan.Ended(state, s.id, d.Status, d.Msg)
		return sendable(m, s.now)
	})
	switch {
	case err != nil:
		s.note(Note{Do: "not announced", Why: err.Error()})
	case m != nil:
		s.send(m)
	}
}

// status returns the status of the instance. One that has ended is stuck where the undo of a late success is.
func (s settler) status() Status {
	d := s.doc
	reruns := func(u Unwind) bool { return u.Then == unwindRerun }
	switch {
	case !d.began() || d.Purged:
		return d.Status
	case slices.ContainsFunc(d.Events, (*Event).Stuck):
		return Stuck
	case d.over():
		return d.Final
	case d.Final != "" && d.Final != Completed, slices.ContainsFunc(d.Unwinds, reruns):
		return Undoing
	}
	return InProcess
}

// Stuck reports that somebody must act on the step, on an undo of it, or on a part.
func (e *Event) Stuck() bool {
	return e.Status == Stuck ||
		slices.ContainsFunc(e.Undos, func(u *Undo) bool { return u.Status == Stuck }) ||
		slices.ContainsFunc(e.StuckParts, func(x StuckPart) bool { return x.Msg != "" })
}

// tellStuck tells the parent that the part is stuck, or moves again, so that the whole is seen to be; and that it takes
// something back after its end, or has, so that the whole is kept meanwhile.
func (s settler) tellStuck() {
	d := s.doc
	stuck, undoes := d.Status == Stuck, d.over() && slices.ContainsFunc(d.Events, (*Event).takesBack)
	if stuck == d.Told && undoes == d.Undoes {
		return
	}
	d.Told, d.Undoes = stuck, undoes
	d.Seq++
	i := d.Parent.Index
	m := Done{Plan: s.plan.Name, ID: d.Parent.ID, Path: d.Parent.Path, Run: d.Parent.Run, Item: &i, Undo: d.UndoFor, Outcome: Moving, Undoes: undoes, Seq: d.Seq}
	if stuck {
		m.Outcome, m.Error = Halted, s.id
	}
	s.send(m)
}

// compact shrinks steps that have ended, and sends the oldest of many to the trail.
func (s settler) compact() {
	d := s.doc
	small := 0
	for _, ev := range d.Events {
		if s.needed(ev) {
			continue
		}
		small++
		if f := ev.Fan; f != nil {
			f.letGo()
		}
	}
	most := s.plan.whole.bounds.lines
	if small <= most {
		return
	}
	kept := make([]*Event, 0, len(d.Events))
	for _, ev := range d.Events {
		if small > most/2 && !s.needed(ev) && !s.hears(ev) {
			s.leave(ev)
			small--
			continue
		}
		kept = append(kept, ev)
	}
	d.Events = kept
}

// leave lets a step go to the trail, where it must fit into a row.
func (t *turn) leave(ev *Event) {
	if f := ev.Fan; f != nil {
		f.Effects, f.Worst = nil, f.Worst[:min(len(f.Worst), maxBadLine)]
	}
	t.lines = append(t.lines, ev)
	t.doc.Trailed++
}

// needed reports that a step is open, or holds what an undo may need.
func (s settler) needed(ev *Event) bool {
	return ev.open() || ev.Status == Undoing || scopes(s).armed(ev) || ev.undoing() || ev.Stuck()
}

// hears reports that a step that has ended may still get a success that is to be undone, or a word of a part that
// undoes one, or may go on with its key.
func (s settler) hears(ev *Event) bool {
	n := s.plan.Node(ev.ID)
	return ev.unknown() || n != nil && n.undoable() && (ev.Status != Completed || s.doc.Pivot == "" || Parts(ev, n.Verb) > 0)
}

// size is about how many bytes the document takes in the store, beside its early signals.
func (d *Instance) size() int {
	n := 300 + len(d.State) + 60*len(d.Shelf)
	for _, x := range d.Notes {
		n += 130 + len(x.Why) + len(x.By)
	}
	if d.Page != nil {
		n += sizeOf(d.Page.Results)
	}
	for _, ev := range d.Events {
		n += ev.size()
	}
	return n
}

// earlySize is about how many bytes the early signals take. They have room of their own, so that nobody who sends them
// keeps an instance from its start, or from going on.
func (d *Instance) earlySize() (n int) {
	for _, x := range d.Early {
		n += x.size()
	}
	return n
}

func (x Early) size() int { return 130 + len(x.Body) }

func (e *Event) size() int {
	n := 220 + len(e.State) + len(e.Result) + len(e.Msg) + 20*len(e.Twice)
	for _, f := range e.Failures {
		n += 60 + len(f.Msg)
	}
	for _, u := range e.Undos {
		n += 150 + len(u.State) + len(u.Result)
		for _, f := range u.Failures {
			n += 60 + len(f.Msg)
		}
	}
	for _, x := range e.StuckParts {
		n += 40 + len(x.Msg)
	}
	if e.Fan != nil {
		n += e.Fan.size()
	}
	return n
}

func (f *Fan) size() int {
	n := 100 + f.Bytes + sizeOf(f.Held) + 4*len(f.Ended) + 12*len(f.Tries) + len(f.Cursor)
	for _, x := range f.Effects {
		n += 8 + 20*len(x)
	}
	for _, x := range f.Worst {
		n += 40 + len(x.Msg) + len(x.Item)
	}
	return n
}

func sizeOf(values []jsontext.Value) (n int) {
	for _, x := range values {
		n += 1 + len(x)
	}
	return n
}
