package flow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Law 15: a result that makes the state too large makes the step stuck; one that fits nowhere is refused, and the
// document stays as it was.
func TestDocumentsAreBounded(t *testing.T) {
	t.Parallel()
	big := func(n int) Done { return did(strings.Repeat("x", n)) }
	w := newWorld(t, func(p *Plan) { undoable(do(p, p.Root, "a")); undoable(do(p, p.Root, "b")) })
	w.agents["a"] = func(Begin) Done { return big(60 << 10) }
	w.agents["b"] = func(Begin) Done { return big(50 << 10) }
	w.start()
	w.run(time.Minute)
	w.want(Stuck, "a", "b")
	if ev := w.doc().find("02"); !strings.Contains(ev.Msg, ErrTooLarge.Error()) || len(ev.Result) < 50<<10 {
		t.Errorf("got %s, %d bytes of a result", ev.Msg, len(ev.Result))
	}
	w.act(ActCancel, "")
	w.run(time.Minute)
	w.want(Canceled, "a", "b", "undo b", "undo a")

	w = newWorld(t, func(p *Plan) { do(p, p.Root, "a") })
	w.agents["a"] = hang
	w.start()
	w.run(time.Second)
	before := string(w.keeper.docs["o1"])
	_, changed, err := w.keeper.fold("o1", answering(w.begin("a"), big(MaxSize+resultRoom)), w.now)
	if changed || !errors.Is(err, ErrTooLarge) || string(w.keeper.docs["o1"]) != before {
		t.Errorf("got %v, %v", changed, err)
	}
	_, _, err = w.keeper.fold("o2", Start{Plan: "plan", ID: "o2", State: big(MaxSize).Result}, w.now)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("a start: got %v", err)
	}
	_, _, err = w.keeper.fold("o1", Signal{Plan: "plan", ID: "o1", Sort: "early", Body: big(MaxSize).Result}, w.now)
	if !errors.Is(err, ErrEarly) {
		t.Errorf("a signal: got %v", err)
	}
	w.run(2 * time.Hour)
	w.want(Aborted, "a")
}

// Law 15: items and states of children that fit nowhere fail their step, or make it stuck, where they are made.
func TestItemsAreBounded(t *testing.T) {
	t.Parallel()
	huge := jsontext.Value(fmt.Sprintf("%q", strings.Repeat("x", maxPageSize)))
	w := newWorld(t, func(p *Plan) {
		each(p, p.Root, "each", 1).Items = func(any) ([]jsontext.Value, error) { return []jsontext.Value{huge}, nil }
	})
	w.start()
	if d := w.doc(); d.Status != Aborted || !strings.Contains(d.Msg, "item 0 has") {
		t.Errorf("got %s: %s", d.Status, d.Msg)
	}
	w = newWorld(t, func(p *Plan) {
		sub(p, p.Root, "sub", three).Start = func(any, jsontext.Value) (jsontext.Value, error) { return append(huge, huge...), nil }
	})
	w.start()
	if ev := w.doc().find("01"); w.doc().Status != Stuck || !strings.Contains(ev.Msg, "the state of a child has") {
		t.Errorf("got %s: %s", w.doc().Status, ev.Msg)
	}
	w = newWorld(t, func(p *Plan) { p.bounds.page = 1; each(p, p.Root, "each", MaxPages+1) })
	w.start()
	if d := w.doc(); d.Status != Aborted || !strings.Contains(d.Msg, "see EachFrom") {
		t.Errorf("got %s: %s", d.Status, d.Msg)
	}
}

// Law 15: results that are kept for undos, and take more than a document, fail the step; all of them are undone.
func TestArmedItemsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { n := undoable(each(p, p.Root, "each", 20)); n.Gathered, n.AtOnce = false, 2 })
	w.keeper.quick = true
	for i := range 20 {
		w.agents[fmt.Sprint("each ", i)] = func(Begin) Done { return did(strings.Repeat("x", 30<<10)) }
	}
	w.start()
	w.run(time.Hour)
	undone := 0
	for _, b := range w.begins {
		if b.Undo > 0 {
			undone++
		}
	}
	if d := w.doc(); d.Status != Aborted || !strings.Contains(d.Msg, "results that an undo may need") || undone == 0 || undone != len(w.begins)/2 {
		t.Errorf("got %s: %s; %d of %d undone", d.Status, d.Msg, undone, len(w.begins)/2)
	}
}

// Law 15: results of a page that take more than a document fail the page, and so the step.
func TestResultsOfAPageAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { p.bounds.page = 12; each(p, p.Root, "each", 13) })
	w.keeper.quick = true
	for i := range 13 {
		w.agents[fmt.Sprint("each ", i)] = func(Begin) Done { return did(strings.Repeat("x", 30<<10)) }
	}
	w.start()
	w.run(time.Hour)
	if d := w.doc(); d.Status != Aborted || !strings.Contains(d.Msg, "results of items") {
		t.Errorf("got %s: %s", d.Status, d.Msg)
	}
}

// Law 15: early signals are bounded. The oldest one goes, and that is noted.
func TestEarlySignalsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { do(p, p.Root, "a"); wait(p, p.Root, "w", "signal") })
	w.agents["a"] = hang
	w.start()
	for i := range maxEarly + 1 {
		w.signal("signal", fmt.Sprint(i))
	}
	w.wantNote("unheard signal")
	w.run(time.Second)
	w.give("o1", answering(w.begin("a"), did("a")))
	w.wantState(`["\"a\"","\"1\""]`)
	if d := w.doc(); len(d.Notes) > maxNotes || d.Status != Completed {
		t.Errorf("got %d notes, %s", len(d.Notes), d.Status)
	}
}

// Law 15: early signals have room of their own, whatever room the state takes. One that finds none is refused, and
// changes nothing. Small ones always find some.
func TestRoomOfEarlySignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { wait(p, p.Root, "w", "other"); wait(p, p.Root, "v", "signal") })
	signal := func(bytes int) error {
		_, _, err := w.keeper.fold("o1", Signal{Plan: "plan", ID: "o1", Sort: "signal", Body: text(bytes)}, w.now)
		return err
	}
	if err := signal(42_000); err != nil {
		t.Fatal(err)
	}
	before := string(w.keeper.docs["o1"])
	if err := signal(42_000); !errors.Is(err, ErrEarly) || string(w.keeper.docs["o1"]) != before {
		t.Errorf("another one: got %v", err)
	}
	if _, _, err := w.keeper.fold("o1", Start{Plan: "plan", ID: "o1", State: jsontext.Value("[" + string(text(192<<10)) + "]")}, w.now); err != nil {
		t.Errorf("the start of a large state: %v", err)
	}
	if n := maxEarly * (Early{Body: text(smallSignal)}).size(); n > earlyRoom {
		t.Errorf("%d small signals take %d bytes, of %d", maxEarly, n, earlyRoom)
	}
}

// text is a text in JSON, of so many bytes.
func text(bytes int) jsontext.Value {
	return jsontext.Value(`"` + strings.Repeat("x", bytes-2) + `"`)
}

// Law 15: depth, names and the like are bounded where the plan is made, and all faults are told together.
func TestPlansAreChecked(t *testing.T) {
	t.Parallel()
	p := NewPlan("plan", 1)
	do(p, p.Root, "")
	do(p, p.Root, "twice")
	n := do(p, p.Root, "twice")
	p.NewElse(n)
	p.NewElse(n)
	s := p.Root
	for i := range 10 {
		s = p.Branch(composite(p, s, If, fmt.Sprint("if", i)))
	}
	p.NewPart(p.Add(p.Root, Child, "sub"))
	err := p.Finish()
	for _, want := range []string{`its name is ""`, "another step has the name", "nested deeper than 8", "it has two Else", "has no step"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no fault says %q: %v", want, err)
		}
	}
}

// Laws 7 and 15: a document of ten thousand steps in a row stays small, and its steps go to the trail, each once.
func TestTenThousandSteps(t *testing.T) {
	t.Parallel()
	const steps = 10_000
	w := newWorld(t, func(p *Plan) {
		for i := range steps {
			do(p, p.Root, fmt.Sprint("s", i)).Apply = nil
		}
	})
	w.keeper.live = map[string]*Instance{}
	w.start()
	w.run(time.Hour)
	d := w.doc()
	if d.Status != Completed || len(w.journal) != steps || w.keeper.sizes > 30_000 || d.Trailed+len(d.Events) != steps {
		t.Errorf("%s, %d steps, at most %d bytes, %d in the trail", d.Status, len(w.journal), w.keeper.sizes, d.Trailed)
	}
	seen := map[string]bool{}
	for _, ev := range w.lines {
		seen[ev.ID] = true
	}
	if len(seen) != d.Trailed || len(w.lines) != d.Trailed {
		t.Errorf("the trail has %d lines of %d steps, want %d", len(w.lines), len(seen), d.Trailed)
	}
}

// Steps that may still get a success that is to be undone don't leave the document.
func TestStepsThatMayBeUndoneStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		any := composite(p, p.Root, Any, "any")
		undoable(do(p, p.Branch(any), "loser"))
		do(p, p.Branch(any), "winner")
		sleep(p, p.Root, "sleep", time.Minute)
		for i := range 80 {
			do(p, p.Root, fmt.Sprint("s", i)).Apply = nil
		}
		wait(p, p.Root, "wait", "signal")
	})
	w.agents["loser"] = hang
	w.start()
	w.run(2 * time.Minute)
	late := answering(w.begins[0], did("late"))
	w.give("o1", late)
	w.run(time.Minute)
	if last := w.journal[len(w.journal)-1]; last != "undo loser" || w.doc().Trailed == 0 {
		t.Errorf("got %s, %d in the trail", last, w.doc().Trailed)
	}
}
