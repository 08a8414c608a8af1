package flow

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

func unsure(times int) func(Begin) Done {
	return func(b Begin) Done {
		if b.Attempt <= times {
			return Done{Outcome: Unknown, Error: "no answer"}
		}
		return did("at last")
	}
}

func (w *world) wantMsg(want string) {
	w.t.Helper()
	for _, ev := range w.doc().Events {
		if ev.Stuck() && strings.Contains(ev.Msg, want) {
			return
		}
	}
	w.t.Errorf("no step is stuck with %q", want)
}

// Law 8: nobody guesses what an attempt of unknown outcome has done. The step is stuck, and somebody says that it was
// done, or not, or has it done again with the same key.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		act     string
		status  Status
		journal []string
	}{
		{ActSkip, Aborted, []string{"reserve", "charge", "ship", "undo charge", "undo reserve"}},
		{ActFail, Aborted, []string{"reserve", "charge", "undo reserve"}},
		{ActRetry, Aborted, []string{"reserve", "charge", "charge", "ship", "undo charge", "undo reserve"}},
		{ActCancel, Stuck, []string{"reserve", "charge"}},
	} {
		w := newWorld(t, func(p *Plan) { three(p); p.Step("charge").Attempts = 1 })
		w.agents["charge"], w.agents["ship"] = unsure(1), fails(9, Refused)
		w.start()
		w.run(3 * time.Hour)
		w.want(Stuck, "reserve", "charge")
		w.wantMsg("outcome unknown: no answer")
		w.give("o1", answering(w.begins[1], Done{Outcome: Unknown, Error: "no answer"})) // a copy
		w.act(c.act, "02")
		w.run(time.Hour)
		w.want(c.status, c.journal...)
		if c.act == ActRetry && w.begins[1].Key != w.begins[2].Key {
			t.Error("another key after a retry")
		}
		if c.act != ActCancel {
			continue
		}
		w.act(ActSkip, "02") // it is undone then
		w.run(time.Hour)
		w.want(Canceled, "reserve", "charge", "undo charge", "undo reserve")
	}
}

// Law 8: an agent of unknown outcome may still answer, as one whose worker has given it up.
func TestOutcomeUnknownIsKnownAfterAll(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[string][]string{
		OK:      {"reserve", "charge", "ship"},
		Failed:  {"reserve", "charge", "charge", "ship"},
		Refused: {"reserve", "charge", "undo reserve"},
	} {
		w := newWorld(t, three)
		w.agents["charge"] = unsure(1)
		w.start()
		w.run(2 * time.Hour)
		w.want(Stuck, "reserve", "charge")
		w.give("o1", answering(w.begin("charge"), Done{Outcome: outcome, Result: jsontext.Value(`"late"`), Error: "no"}))
		w.run(time.Hour)
		status := Completed
		if outcome == Refused {
			status = Aborted
		}
		w.want(status, want...)
	}
}

// Law 8: so it is with items. The others go on, and acts speak of all items that are in doubt, or of one.
func TestOutcomeOfItemsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		n := undoable(each(p, p.Root, "each", 5))
		n.Tolerate, n.AtOnce = 1, 2
		do(p, p.Root, "last")
	})
	w.agents["last"] = fails(1, Refused)
	for _, item := range []string{"each 0", "each 1", "each 3"} {
		w.agents[item] = unsure(1)
	}
	w.start()
	w.run(3 * time.Hour)
	w.wantMsg("items 0, 1: outcome unknown: no answer")
	item := func(i int, do string) {
		w.give("o1", Act{Plan: "plan", ID: "o1", Do: do, Path: "01", Item: &i, By: "ada"})
		w.run(time.Hour)
	}
	item(7, ActFail) // refused
	item(0, ActSkip)
	w.wantMsg("items 1: outcome unknown: no answer")
	item(1, ActFail) // one may fail
	w.wantMsg("items 3: outcome unknown: no answer")
	w.act(ActRetry, "01")
	w.run(time.Hour)
	if d := w.doc(); d.Status != Aborted || d.Msg != "no" {
		t.Errorf("got %s: %s", d.Status, d.Msg)
	}
	undone := map[string]int{}
	for _, what := range w.journal {
		undone[what]++
	}
	for what, n := range map[string]int{"undo each 0": 1, "undo each 1": 0, "undo each 2": 1, "undo each 3": 1, "undo each 4": 1, "each 3": 2, "each 1": 1} {
		if undone[what] != n {
			t.Errorf("%s: %d times, want %d: %v", what, undone[what], n, w.journal)
		}
	}
}

// Laws 8 and 10: an undo and an agent that lists items are not repeated by a guess, either.
func TestOutcomeOfUndoUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["ship"], w.agents["undo charge"] = fails(9, Refused), unsure(1)
	w.start()
	w.run(time.Hour)
	w.want(Stuck, "reserve", "charge", "ship", "undo charge")
	w.act(ActSkip, "02")
	w.run(time.Hour)
	w.want(Aborted, "reserve", "charge", "ship", "undo charge", "undo reserve")

	w = newWorld(t, func(p *Plan) { n := each(p, p.Root, "each", 0); n.Listed = true })
	w.agents["each"] = func(b Begin) Done {
		if b.Attempt == 1 {
			return Done{Outcome: Unknown, Error: "no answer"}
		}
		return Done{Outcome: OK, Result: jsontext.Value(`{"items":[]}`)}
	}
	w.start()
	w.run(2 * time.Hour)
	w.wantMsg("outcome unknown: no answer")
	w.act(ActRetry, "01")
	w.run(time.Hour)
	if d := w.doc(); d.Status != Completed {
		t.Errorf("got %s: %s", d.Status, d.Msg)
	}
}

// An attempt whose step has ended in another way leaves a note.
func TestOutcomeUnknownAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["charge"] = hang
	w.start()
	w.run(2 * time.Hour)
	w.want(Aborted, "reserve", "charge", "undo reserve")
	for range 2 {
		w.give("o1", answering(w.begin("charge"), Done{Outcome: Unknown, Error: "no answer"}))
	}
	if notes := w.doc().Notes; len(notes) != 1 || notes[0].Do != "outcome unknown" || notes[0].Path != "02" {
		t.Errorf("got the notes %+v", notes)
	}
}
