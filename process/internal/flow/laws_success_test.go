package flow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// Law 5: a success after the deadline is undone, once, however often it comes, and also when the instance has ended.
func TestLateSuccessIsUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["charge"] = hang
	w.start()
	w.run(2 * time.Hour)
	w.want(Aborted, "reserve", "charge", "undo reserve")
	late := answering(w.begin("charge"), did("r1"))
	for range 3 {
		w.give("o1", late)
		w.run(time.Hour)
	}
	w.want(Aborted, "reserve", "charge", "undo reserve", "undo charge")
	if got := string(w.begins[3].Result); got != `"r1"` {
		t.Errorf("undone is %s, want what was done", got)
	}
}

// Law 5: the first success of any attempt ends the step, also that of an earlier attempt.
func TestFirstSuccessOfAnyAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["charge"] = func(b Begin) Done {
		if b.Attempt == 1 {
			return Done{Outcome: Failed, Error: "no answer"}
		}
		return Done{}
	}
	w.start()
	w.run(time.Minute)
	first := w.begins[1]
	w.give("o1", answering(first, did("in the end")))
	w.run(time.Minute)
	w.want(Completed, "reserve", "charge", "charge", "ship")
}

// Law 5: a second success with another effect is undone if its result says its effect, else it is marked.
func TestSecondSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["charge"] = func(Begin) Done { return effective("r1") }
	w.start()
	w.run(time.Minute)
	reserve, charge := w.begin("reserve"), w.begin("charge")
	for range 2 {
		w.give("o1", answering(charge, effective("r2")))
		w.give("o1", answering(charge, effective("r1")))
		w.give("o1", answering(reserve, did("reserved, at another time")))
		w.run(time.Minute)
	}
	w.want(Completed, "reserve", "charge", "ship", "undo charge")
	if got := string(w.begins[3].Result); got != `"r2"` {
		t.Errorf("undone is %s, want the second effect", got)
	}
	if ev := w.doc().find("01"); len(ev.Twice) != 1 {
		t.Errorf("marked: got %v, want one", ev.Twice)
	}
	// The first effect is undone all the same when the instance is run again, and its undo has a key of its own.
	w.act(ActRerun, "02")
	w.run(time.Minute)
	w.want(Completed, "reserve", "charge", "ship", "undo charge", "undo charge", "charge", "ship")
	if a, b := w.begins[3], w.begins[4]; a.Key == b.Key || string(b.Result) != `"r1"` {
		t.Errorf("two undos: %+v %+v", a, b)
	}
}

// Law 5 for items: a success after a failure for good, or after the step, is undone once; one with another effect, too.
func TestLateItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { undoable(each(p, p.Root, "each", 3)).Tolerate = 1; do(p, p.Root, "after") })
	w.agents["each 0"] = fails(9, Never)
	w.agents["each 1"] = func(Begin) Done { return effective("e1") }
	w.agents["each 2"] = hang
	w.start()
	w.run(time.Second)
	for range 2 {
		w.give("o1", answering(w.begins[0], did("it"))) // it has failed, and the step goes on
		w.give("o1", answering(w.begins[1], effective("e1b")))
		w.run(time.Second)
	}
	w.want(InProcess, "each 0", "each 1", "each 2", "undo each 0", "undo each 1")
	w.run(2 * time.Hour) // it fails, and the first effect of item 1 is undone
	for range 2 {
		w.give("o1", answering(w.begins[2], effective("e2")))
		w.give("o1", answering(w.begins[1], effective("e1")))
		w.give("o1", answering(w.begins[1], effective("e1b")))
		w.run(time.Second)
	}
	w.want(Aborted, "each 0", "each 1", "each 2", "undo each 0", "undo each 1", "undo each 1", "undo each 2")
	keys := map[string]bool{}
	for _, b := range w.begins {
		keys[b.Key] = true
	}
	if len(keys) != len(w.begins) {
		t.Errorf("%d keys for %d begins", len(keys), len(w.begins))
	}
}

// Law 5: the repeat of an item's success after a pivot is still known.
func TestItemsAreKnownAfterThePivot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		undoable(each(p, p.Root, "each", 1))
		p.Add(p.Root, Pivot, "pivot")
		wait(p, p.Root, "wait", "signal")
	})
	w.agents["each 0"] = func(Begin) Done { return effective("e0") }
	w.start()
	w.run(time.Minute)
	if w.give("o1", answering(w.begins[0], effective("e0"))) {
		t.Error("the repeat changes the document")
	}
}

// Law 5: what an Ask has brought about too late is taken back by its command.
func TestLateAnswerIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { ask(p, p.Root, "x").Within = time.Minute })
	w.start()
	w.run(time.Hour)
	w.want(Aborted)
	w.answer("no.x", "too late, and nothing was done")
	w.answer("yes.x", "r1")
	w.answer("yes.x", "r1")
	w.run(time.Minute)
	var back []channel.Message
	for _, x := range w.asked {
		if m, ok := x.Message.(takenBack); ok {
			back = append(back, m)
		}
	}
	if !slices.Equal(back, []channel.Message{takenBack{`"r1"`}}) {
		t.Errorf("taken back: %v", back)
	}
}

// An Ask has several answers; a refusal fails the step, and may note it in the state.
func TestAsk(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{true, false} {
		w := newWorld(t, func(p *Plan) { ask(p, p.Root, "x"); do(p, p.Root, "next") })
		w.start()
		w.run(time.Minute)
		kind := channel.Kind("no.x")
		if yes {
			kind = "yes.x"
		}
		w.answer(kind, "body")
		w.run(time.Minute)
		if yes {
			w.want(Completed, "next")
			w.wantState(`["\"body\"","\"did next\""]`)
		} else {
			w.want(Aborted)
			w.wantState(`["\"body\""]`)
			if msg := w.doc().Msg; msg != "refused: no.x" {
				t.Errorf("got %q", msg)
			}
		}
	}
}

// A refusal that can't be noted in the state makes the Ask stuck. It is no success, so nothing is taken back; retried,
// it fails the step.
func TestStuckRefusal(t *testing.T) {
	t.Parallel()
	for _, cancel := range []bool{true, false} {
		broken := true
		w := newWorld(t, func(p *Plan) {
			ask(p, p.Root, "x").Answers[1].Apply = func(v any, r jsontext.Value) (any, error) { mayPanic(&broken); return noting(v, r) }
		})
		w.start()
		w.answer("no.x", "sold out")
		w.want(Stuck)
		broken = false
		want := Aborted
		if cancel {
			w.act(ActCancel, "")
			want = Canceled
		} else {
			w.act(ActRetry, "01")
			w.wantState(`["\"sold out\""]`)
		}
		w.run(time.Hour)
		w.want(want)
		if len(w.asked) != 1 {
			t.Errorf("asked: %+v", w.asked)
		}
	}
}

// An event that comes along an Ask's chain of messages, and isn't its answer, is for the step that waits for it.
func TestEventsOfTheChainAreHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { ask(p, p.Root, "x"); wait(p, p.Root, "picked", "picked") })
	w.start()
	w.run(time.Minute)
	w.answer("picked", "early")
	w.answer("nobody.listens", "x")
	w.answer("yes.x", "r1")
	w.want(Completed)
	w.wantState(`["\"r1\"","\"early\""]`)
}

// Law 7: deadline, success, failure and cancel: the first one that is folded decides.
func TestTheFirstOneDecides(t *testing.T) {
	t.Parallel()
	setUp := func() (w *world, success, failure Done, alarm Alarm) {
		w = newWorld(t, func(p *Plan) { undoable(do(p, p.Root, "a")).Attempts = 1; wait(p, p.Root, "b", "signal") })
		w.agents["a"] = hang
		w.start()
		w.run(time.Minute)
		return w, answering(w.begin("a"), did("it")), answering(w.begin("a"), Done{Outcome: Refused, Error: "no"}), Alarm{Plan: "plan", ID: "o1", At: w.doc().Alarm}
	}
	cancel := Act{Plan: "plan", ID: "o1", Do: ActCancel}
	w, success, failure, alarm := setUp()
	w.give("o1", success)
	w.give("o1", failure)
	w.give("o1", alarm)
	if w.doc().Status != InProcess || w.doc().find("01").Status != Completed {
		t.Errorf("success first: got %s", w.keeper.docs["o1"])
	}
	w, _, failure, alarm = setUp()
	w.give("o1", failure)
	w.give("o1", alarm)
	w.give("o1", cancel)
	if d := w.doc(); d.Status != Aborted || d.Msg != "no" || d.Cancel != nil {
		t.Errorf("failure first: got %s", encoded(d))
	}
	w, _, failure, alarm = setUp()
	w.give("o1", alarm)
	w.give("o1", failure)
	w.give("o1", cancel)
	if d := w.doc(); d.Status != Aborted || d.Msg != "no end within 1h0m0s" {
		t.Errorf("deadline first: got %s", encoded(d))
	}
	w, success, _, alarm = setUp()
	w.give("o1", cancel)
	w.give("o1", cancel)
	w.give("o1", success)
	w.give("o1", alarm)
	w.run(time.Minute)
	w.want(Canceled, "a", "undo a")
}

// Law 8: attempts are counted by the document. An agent's refusal is none, and so is a failure of an older attempt.
func TestAttemptsAreCountedByTheDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { three(p); p.Step("charge").Attempts = 5 })
	w.agents["charge"] = fails(9, Failed)
	w.start()
	w.run(time.Hour)
	w.want(Aborted, "reserve", "charge", "charge", "charge", "charge", "charge", "undo reserve")
	w = newWorld(t, three)
	w.agents["charge"] = hang
	w.start()
	w.run(time.Second)
	failed := answering(w.begin("charge"), Done{Outcome: Failed, Error: "503", After: 30 * time.Second})
	for range 9 {
		w.give("o1", failed)
	}
	w.run(29 * time.Second)
	w.want(InProcess, "reserve", "charge")
	w.run(time.Second)
	w.want(InProcess, "reserve", "charge", "charge")
	w = newWorld(t, three)
	w.agents["charge"] = fails(9, Refused)
	w.start()
	w.run(time.Hour)
	w.want(Aborted, "reserve", "charge", "undo reserve")
}

// away is an agent whose service is away for so long.
func (w *world) away(d time.Duration) func(Begin) Done {
	back := w.now.Add(d)
	return func(b Begin) Done {
		switch {
		case w.now.Before(back):
			return Done{Outcome: Failed, Error: "503"}
		case b.List:
			return Done{Outcome: OK, Result: jsontext.Value(`{"items":[]}`)}
		}
		return did("at last")
	}
}

// Law 8: a step, an item and a list are tried until the time of the step is over, at least once a minute, and an undo
// for a day. So a service that is away for less aborts nothing, and makes nothing stuck.
func TestAServiceThatIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	plan := func(p *Plan) {
		undoable(do(p, p.Root, "a"))
		each(p, p.Root, "items", 2)
		each(p, p.Root, "listed", 0).Listed = true
		do(p, p.Root, "last")
	}
	agents := []string{"a", "items 0", "items 1", "listed"}
	for _, agent := range agents {
		w := newWorld(t, plan)
		w.agents["listed"] = w.away(0)
		w.agents[agent] = w.away(58 * time.Minute)
		w.agents["last"] = fails(1, Refused)
		w.agents["undo a"] = func(b Begin) Done {
			w.agents["undo a"] = w.away(23 * time.Hour)
			return w.agents["undo a"](b)
		}
		w.start()
		w.run(2 * time.Hour)
		if d := w.doc(); d.Status != Undoing {
			t.Errorf("%s: two hours later it is %s: %s", agent, d.Status, d.Msg)
		}
		w.run(24 * time.Hour)
		if d := w.doc(); d.Status != Aborted || d.Msg != "no" {
			t.Errorf("%s: in the end it is %s: %s", agent, d.Status, d.Msg)
		}
	}
	for _, agent := range agents { // it is given up with the error of the agent, and when no other attempt is left
		w := newWorld(t, plan)
		w.agents["listed"] = w.away(0)
		w.agents[agent] = w.away(3 * time.Hour)
		w.start()
		w.run(58 * time.Minute)
		if d := w.doc(); d.Status != InProcess {
			t.Errorf("%s: it is given up as %s: %s", agent, d.Status, d.Msg)
		}
		w.run(2 * time.Minute)
		if d := w.doc(); d.Status != Aborted || !strings.Contains(d.Msg, "503") {
			t.Errorf("%s: an hour later it is %s: %s", agent, d.Status, d.Msg)
		}
	}
	w := newWorld(t, func(p *Plan) { each(p, p.Root, "items", 3).Tolerate = 1 }) // a failing item is one of those that may fail
	w.agents["items 1"] = w.away(3 * time.Hour)
	w.start()
	w.run(time.Hour)
	if d := w.doc(); d.Status != Completed {
		t.Errorf("with one item that may fail it is %s: %s", d.Status, d.Msg)
	}
}

// Failures that are remembered are bounded: the first one and the last ones.
func TestFailuresAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { do(p, p.Root, "a").Attempts = 20 })
	w.agents["a"] = fails(19, Failed)
	w.start()
	w.run(50 * time.Minute)
	w.agents["a"] = nil
	ev := w.doc().find("01")
	if n := len(ev.Failures); n != maxFailures || ev.Failures[0].N != 1 || ev.Failures[n-1].N != ev.Attempt-1 {
		t.Errorf("got %+v in attempt %d", ev.Failures, ev.Attempt)
	}
}

// A list that fails is asked for as often as the step has attempts, whatever that number is.
func TestListingHasAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { n := each(p, p.Root, "each", 0); n.Listed, n.Attempts, n.Forever = true, 8, true })
	w.agents["each"] = fails(99, Failed)
	w.start()
	w.run(24 * time.Hour)
	if w.doc().Status != Aborted || len(w.journal) != 8 {
		t.Errorf("got %s after %d attempts, want 8", w.doc().Status, len(w.journal))
	}
}

// Results are JSON, also those that are nothing.
func TestEmptyResults(t *testing.T) {
	t.Parallel()
	for _, result := range []string{"", "null", "{}", `""`, "[]"} {
		broken := true
		w := newWorld(t, func(p *Plan) {
			undoable(do(p, p.Root, "a")).Apply = func(v any, r jsontext.Value) (any, error) { mayPanic(&broken); return v, nil }
			do(p, p.Root, "b")
		})
		w.agents["a"] = func(Begin) Done { return Done{Outcome: OK, Result: jsontext.Value(result)} }
		w.agents["b"] = fails(1, Refused)
		w.start()
		w.run(time.Minute)
		broken = false
		w.act(ActRetry, "01")
		w.run(time.Minute)
		w.want(Aborted, "a", "b", "undo a")
		if got := string(w.begins[2].Result); got != result {
			t.Errorf("undone is %q, want %q", got, result)
		}
	}
}
