package flow

import (
	"slices"

	"github.com/millrace-go/millrace/channel"
)

// announcer tells others how the instance stands: its program, its parent, the index and the trail.
type announcer struct{ fold *fold }

// tellEnd sends the word of a part that has ended, with its results or without.
func (a announcer) tellEnd(results bool) {
	f, d := a.fold, a.fold.doc
	m := Done{Plan: f.plan.Name, ID: d.Parent.ID, Path: d.Parent.Path, Run: d.Parent.Run, Outcome: OK, Error: d.Msg, Undo: d.UndoFor, Began: d.Created, Ended: f.now}
	i := d.Parent.Index
	m.Item = &i
	m.Unheard = slices.ContainsFunc(d.Events, (*Event).awaits)
	switch {
	case d.UndoFor > 0:
	case d.Final == Canceled:
		m.Outcome = Withdrawn
	case d.Final != Completed:
		m.Outcome = Failed
	case d.Page == nil && results:
		m.Result = d.State
	}
	if d.Page != nil && d.UndoFor == 0 {
		if d.Final == Completed && results {
			m.Results = d.Page.Results
		}
		d.Page.Results = nil
		if len(d.Events) > 0 {
			m.Failed = d.Events[0].Failed
			if bad := d.Events[0].Fan.Worst; m.Error == "" && len(bad) > 0 {
				m.Error = bad[0].Msg
			}
		}
	}
	f.send(m)
}

// tellUnheard tells the parent of a part that has ended that an attempt in it may still succeed.
func (a announcer) tellUnheard() {
	if p := a.fold.doc.Parent; p != nil && a.fold.doc.over() {
		a.fold.send(SilentOf(Begin{Plan: a.fold.plan.Name, ID: p.ID, Path: p.Path, Run: p.Run}))
	}
}

// tellStuck tells the parent that the part is stuck, or moves again, so that the whole is seen to be; and that it takes
// something back after its end, or has, so that the whole is kept meanwhile.
func (a announcer) tellStuck() {
	f, d := a.fold, a.fold.doc
	stuck, undoes := d.Status == Stuck, d.over() && slices.ContainsFunc(d.Events, (*Event).takesBack)
	if d.Parent == nil || stuck == d.Told && undoes == d.Undoes {
		return
	}
	d.Told, d.Undoes = stuck, undoes
	d.Seq++
	i := d.Parent.Index
	m := Done{Plan: f.plan.Name, ID: d.Parent.ID, Path: d.Parent.Path, Run: d.Parent.Run, Item: &i, Undo: d.UndoFor, Outcome: Moving, Undoes: undoes, Seq: d.Seq}
	if stuck {
		m.Outcome, m.Error = Halted, f.id
	}
	f.send(m)
}

// tellProgram tells the program that the instance has ended, or is stuck. A function that fails announces nothing: the
// instance has ended all the same.
func (a announcer) tellProgram() {
	f, d := a.fold, a.fold.doc
	if f.plan.Ended == nil || !d.over() && d.Status != Stuck {
		return
	}
	var m channel.Message
	err := f.user(func(state any) error {
		m = f.plan.Ended(state, f.id, d.Status, d.Msg)
		return sendable(m, f.now)
	})
	switch {
	case err != nil:
		f.note(Note{Do: "not announced", Why: err.Error()})
	case m != nil:
		f.send(m)
	}
}

// tellIndex says what the index and the trail are to know.
func (a announcer) tellIndex() {
	f, d := a.fold, a.fold.doc
	index := f.moved && d.Parent == nil
	if !index && len(f.lines) == 0 {
		return
	}
	if index {
		d.Seq++
	}
	f.send(Record{Plan: f.plan.Name, ID: f.id, Lines: f.lines})
}
