package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// many adds steps with an undo, whose results the state doesn't take.
func many(p *Plan, s *Seq, name string, n int) {
	for i := range n {
		undoable(do(p, s, fmt.Sprintf("%s%d", name, i))).Apply = nil
	}
}

// undone returns what is undone of so many steps, in reverse order.
func undone(name string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("undo %s%d", name, n-1-i))
	}
	return all
}

// Law 15: however many steps have an undo, the document stays small. A step that is to be undone comes back from the
// trail, and the order is the same.
func TestManyUndos(t *testing.T) {
	t.Parallel()
	const steps, bound = 300, 8000
	w := newWorld(t, func(p *Plan) {
		p.bounds.shelf = bound
		many(p, p.Root, "s", steps)
		do(p, p.Root, "last")
	})
	w.agents["last"] = fails(9, Refused)
	w.start()
	w.run(time.Hour)
	if d := w.doc(); d.Status != Aborted || d.Msg != "no" {
		t.Fatalf("got %s: %s", d.Status, d.Msg)
	}
	if got := w.journal[steps+1:]; !slices.Equal(got, undone("s", steps)) {
		t.Errorf("%d were undone in the order %v", len(got), got)
	}
	if most := 60*steps + 4*bound; w.keeper.sizes > most {
		t.Errorf("the document had %d bytes, want %d at most", w.keeper.sizes, most)
	}
	w.act(ActRerun, "100") // steps before it were undone
	if notes := w.doc().Notes; len(notes) != 1 || notes[0].Do != "rerun refused" {
		t.Errorf("got the notes %+v", notes)
	}
	w.agents["last"] = nil
	w.act(ActRerun, "01")
	w.run(time.Hour)
	if d := w.doc(); d.Status != Completed || len(w.journal) != steps+1+steps+steps+1 {
		t.Errorf("run again: got %s, %d calls", d.Status, len(w.journal))
	}
}

// Law 15: so it is in the scope of an Else, which takes back nothing else, and after a pivot nothing is taken back.
func TestManyUndosInAScope(t *testing.T) {
	t.Parallel()
	const steps = 100
	for _, pivot := range []bool{false, true} {
		w := newWorld(t, func(p *Plan) {
			p.bounds.shelf = 6000
			many(p, p.Root, "a", steps)
			if pivot {
				p.Add(p.Root, Pivot, "pivot").Forever = true
			}
			all := composite(p, p.Root, All, "all")
			many(p, p.Branch(all), "x", steps)
			b := p.Branch(all)
			many(p, b, "y", steps)
			do(p, b, "fail")
			do(p, p.NewElse(all), "else")
			do(p, p.Root, "last")
		})
		w.agents["fail"], w.agents["last"] = fails(9, Refused), fails(9, Refused)
		w.start()
		w.run(time.Hour)
		at := slices.Index(w.journal, "else")
		counts := map[byte]int{}
		for _, what := range w.journal[:at] {
			if name, ok := strings.CutPrefix(what, "undo "); ok {
				counts[name[0]]++
			}
		}
		if counts['a'] != 0 || counts['x'] != steps || counts['y'] != steps {
			t.Errorf("before the else were undone: %v of a, %v of x, %v of y", counts['a'], counts['x'], counts['y'])
		}
		want := append([]string{"else", "last"}, undone("a", steps)...)
		status := Aborted
		if pivot {
			want, status = want[:2], Stuck
		}
		if d := w.doc(); d.Status != status || !slices.Equal(w.journal[at:], want) {
			t.Errorf("pivot %v: got %s, and %v", pivot, d.Status, w.journal[at:])
		}
	}
}

// Law 5: a second success of a step that lies in the trail is taken back, once.
func TestSecondSuccessOfAShelvedStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		p.bounds.shelf = 6000
		many(p, p.Root, "s", 100)
		wait(p, p.Root, "wait", "signal")
	})
	w.agents["s3"] = func(Begin) Done { return effective("first") }
	w.start()
	w.run(time.Minute)
	if d := w.doc(); len(d.Shelf) == 0 || d.findRun(w.begins[3].Path, 0) != nil {
		t.Fatalf("the step is not on the shelf")
	}
	for _, effect := range []string{"first", "second", "second"} {
		w.give("o1", answering(w.begins[3], effective(effect)))
		w.run(time.Minute)
	}
	if got := w.journal[100:]; !slices.Equal(got, []string{"undo s3"}) {
		t.Errorf("got %v, want one undo of s3", got)
	}
}

// A nudge asks for steps once more whose message is lost.
func TestNudgeFetchesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		p.bounds.shelf = 6000
		many(p, p.Root, "s", 100)
		do(p, p.Root, "last")
	})
	w.agents["last"] = fails(9, Refused)
	lines := 0
	w.agents["undo s99"] = func(Begin) Done { // the trail loses all
		w.lines, lines = nil, len(w.lines)
		return did("")
	}
	keep := w.lines
	w.agents["last"] = func(b Begin) Done { keep = slices.Clone(w.lines); return fails(9, Refused)(b) }
	w.start()
	w.run(time.Hour)
	if d := w.doc(); d.Status != Undoing || lines == 0 {
		t.Fatalf("got %s", d.Status)
	}
	w.lines = append(keep, w.lines...)
	w.act(ActNudge, "")
	w.run(time.Hour)
	if d := w.doc(); d.Status != Aborted {
		t.Errorf("got %s", d.Status)
	}
}
