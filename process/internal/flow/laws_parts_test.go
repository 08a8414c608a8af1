package flow

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Laws 5 and 10: a late success in a part of an instance that has ended is undone there. If that undo is stuck, the
// whole is shown as stuck, and kept, until somebody acts: whether the part is a child or a page, and also below another
// part.
func TestStuckLateUndoOfAPartIsShownAndKept(t *testing.T) {
	t.Parallel()
	leaf := func(p *Plan) { undoable(do(p, p.Root, "leaf")).Within = time.Minute }
	for _, c := range []struct {
		name, part, agent string
		plan              func(p *Plan)
	}{
		{"a child of a Child", "o1/01.00000", "leaf", func(p *Plan) { sub(p, p.Root, "sub", leaf) }},
		{"a child of a Split", "o1/01.00001", "leaf", func(p *Plan) { split(p, p.Root, "split", 2, leaf).AtOnce = 1; p.Step("split").Tolerate = 2 }},
		{"a child of a child", "o1/01.00000/01.00000", "leaf", func(p *Plan) {
			sub(p, p.Root, "outer", func(p *Plan) { sub(p, p.Root, "inner", leaf) })
		}},
		{"an item of a page", "o1/01.00000", "each", func(p *Plan) {
			p.bounds.page = 2
			n := undoable(each(p, p.Root, "each", 3))
			n.Within, n.AtOnce = time.Minute, 2
		}},
	} {
		w := newWorld(t, c.plan)
		for _, name := range []string{c.agent, "each 0", "each 1", "each 2"} {
			w.agents[name] = hang
		}
		broken := func(Begin) Done { return Done{Outcome: Never, Error: "the bank has no such payment"} }
		w.agents["undo leaf"], w.agents["undo each 0"], w.agents["undo each 1"] = broken, broken, broken
		w.start()
		w.run(time.Hour)
		if d := w.doc(); !d.over() || d.Status == Stuck {
			t.Fatalf("%s: before the success it is %s, ended %v", c.name, d.Status, d.Ended)
		}
		ended := w.doc().Ended
		var late Begin
		for _, b := range w.begins {
			if b.ID == c.part {
				late = b
			}
		}
		w.give(c.part, answering(late, did("r1")))
		for range 3 {
			w.run(365 * 24 * time.Hour)
			if d := w.doc(); d.Status != Stuck || d.Purged || !d.Ended.Equal(ended) {
				t.Fatalf("%s: with an undo that is stuck it is %s, purged: %v, ended %v", c.name, d.Status, d.Purged, d.Ended)
			}
		}
		w.actOn(c.part, ActSkip, late.Path, "")
		w.run(time.Minute)
		if d := w.doc(); d.Status != d.Final || d.Purged {
			t.Errorf("%s: when somebody has acted it is %s, purged: %v", c.name, d.Status, d.Purged)
		}
		w.run(365 * 24 * time.Hour)
		if d := w.doc(); !d.Purged {
			t.Errorf("%s: a year after that it is %s, and not purged", c.name, d.Status)
		}
	}
}

// Laws 5 and 10: so it is after a pivot, where a second success in a part that ended well is undone there: the step of
// the part stays in a document from which others have left for the trail.
func TestStuckLateUndoOfAPartIsShownAfterThePivot(t *testing.T) {
	t.Parallel()
	leaf := func(p *Plan) { undoable(do(p, p.Root, "leaf")) }
	after := func(p *Plan) {
		p.Add(p.Root, Pivot, "pivot")
		for i := range 9 {
			do(p, p.Root, fmt.Sprint("after", i))
		}
	}
	for _, c := range []struct {
		name, part, agent string
		plan              func(p *Plan)
	}{
		{"a child of a Child", "o1/01.00000", "leaf", func(p *Plan) { sub(p, p.Root, "sub", leaf) }},
		{"a child of a Split", "o1/01.00001", "leaf", func(p *Plan) { split(p, p.Root, "split", 2, leaf) }},
		{"a child of a page", "o1/01.00000/01.00001", "leaf", func(p *Plan) { split(p, p.Root, "split", 3, leaf) }},
		{"a child of a child with a pivot", "o1/01.00000/01.00000", "leaf", func(p *Plan) {
			sub(p, p.Root, "outer", func(p *Plan) { sub(p, p.Root, "inner", leaf); after(p) })
		}},
		{"an item of a page", "o1/01.00000", "each", func(p *Plan) { undoable(each(p, p.Root, "each", 3)) }},
	} {
		w := newWorld(t, func(p *Plan) { p.bounds.page, p.bounds.lines = 2, 2; c.plan(p); after(p) })
		for _, name := range []string{c.agent, "each 0", "each 1", "each 2"} {
			w.agents[name] = func(Begin) Done { return effective("e1") }
		}
		broken := func(Begin) Done { return Done{Outcome: Never, Error: "the bank has no such payment"} }
		w.agents["undo leaf"], w.agents["undo each 0"], w.agents["undo each 1"] = broken, broken, broken
		w.start()
		w.run(time.Minute)
		if d := w.doc(); d.Status != Completed || d.Trailed == 0 {
			t.Fatalf("%s: before the second success it is %s, with %d steps in the trail", c.name, d.Status, d.Trailed)
		}
		i := slices.IndexFunc(w.begins, func(b Begin) bool { return b.ID == c.part && b.Name == c.agent })
		second := w.begins[i]
		w.give(c.part, answering(second, effective("e2")))
		for range 3 {
			w.run(365 * 24 * time.Hour)
			if d := w.doc(); d.Status != Stuck || d.Purged {
				t.Fatalf("%s: with an undo that is stuck it is %s, purged: %v", c.name, d.Status, d.Purged)
			}
		}
		w.actOn(c.part, ActSkip, second.Path, "")
		w.run(time.Minute)
		if d := w.doc(); d.Status != Completed || d.Purged {
			t.Errorf("%s: when somebody has acted it is %s, purged: %v", c.name, d.Status, d.Purged)
		}
		w.run(365 * 24 * time.Hour)
		if d := w.doc(); !d.Purged {
			t.Errorf("%s: a year after that it is %s, and not purged", c.name, d.Status)
		}
	}
}

// Laws 1 and 5: an instance whose retention is over is kept while a part of it takes a late success back: its parts are
// deleted with it.
func TestRetentionWaitsForUndosOfParts(t *testing.T) {
	t.Parallel()
	leaf := func(p *Plan) { undoable(do(p, p.Root, "leaf")).Within = time.Minute }
	for _, c := range []struct {
		name, part, agent string
		plan              func(p *Plan)
	}{
		{"a child of a Child", "o1/01.00000", "leaf", func(p *Plan) { sub(p, p.Root, "sub", leaf) }},
		{"a child of a Split", "o1/01.00001", "leaf", func(p *Plan) { split(p, p.Root, "split", 2, leaf).Tolerate = 2 }},
		{"a child of a child", "o1/01.00000/01.00000", "leaf", func(p *Plan) {
			sub(p, p.Root, "outer", func(p *Plan) { sub(p, p.Root, "inner", leaf) })
		}},
		{"an item of a page", "o1/01.00000", "each", func(p *Plan) {
			p.bounds.page = 2
			undoable(each(p, p.Root, "each", 3)).Within = time.Minute
		}},
	} {
		for _, second := range []bool{false, true} {
			w := newWorld(t, func(p *Plan) { c.plan(p); p.Retention = time.Minute })
			after := 47 * time.Hour
			for _, name := range []string{c.agent, "each 0", "each 1", "each 2"} {
				if w.agents[name] = hang; second {
					w.agents[name], after = func(Begin) Done { return effective("e1") }, 50*time.Minute
				}
			}
			undone, until := 0, w.now.Add(after+20*time.Hour)
			undo := func(Begin) Done {
				if w.now.Before(until) {
					return Done{Outcome: Failed, Error: "the bank is away"}
				}
				undone++
				return did("undone")
			}
			w.agents["undo leaf"], w.agents["undo each 0"], w.agents["undo each 1"] = undo, undo, undo
			w.start()
			w.run(after)
			i := slices.IndexFunc(w.begins, func(b Begin) bool { return b.ID == c.part && b.Name == c.agent })
			w.give(c.part, answering(w.begins[i], effective("e2")))
			w.run(until.Sub(w.now) - time.Second)
			if d := w.doc(); !d.over() || d.Purged || undone > 0 {
				t.Errorf("%s, second %v: while the undo lasts it is %s, purged: %v, undone %d times", c.name, second, d.Status, d.Purged, undone)
			}
			w.run(time.Hour)
			if undone != 1 {
				t.Errorf("%s, second %v: undone %d times, want once", c.name, second, undone)
			}
			w.run(7 * 24 * time.Hour)
			if d := w.doc(); !d.Purged {
				t.Errorf("%s, second %v: a week after the undo it is %s, and not purged", c.name, second, d.Status)
			}
		}
	}
}
