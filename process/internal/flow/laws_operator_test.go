package flow

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Law 14: a step that is run again after it has failed or was undone has another key. All that was done from there on
// is undone first. The acts stand in the document.
func TestRerunHasNewKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.start()
	w.run(time.Minute)
	w.act(ActRerun, "02")
	w.run(time.Minute)
	w.want(Completed, "reserve", "charge", "ship", "undo charge", "charge", "ship")
	if a, b := w.begins[1], w.begins[4]; a.Key == b.Key || b.Run != 1 || b.Attempt != 1 {
		t.Errorf("run again: %+v", b)
	}
	w.wantNote("rerun 02 ada why not")
	if len(w.lines) != 1 || w.lines[0].Name != "ship" {
		t.Errorf("the trail: %+v, want the step that nothing undoes", w.lines)
	}
	if w.give("o1", answering(w.begins[1], did("did charge"))) {
		t.Error("the repeat of the first run changes the document")
	}
	w.agents["ship"] = fails(9, Refused)
	w.act(ActRerun, "03")
	w.run(time.Minute)
	w.want(Aborted, "reserve", "charge", "ship", "undo charge", "charge", "ship", "ship", "undo charge", "undo reserve")
	w.act(ActRerun, "03")
	w.wantNote("rerun refused 03 ada step reserve before it was undone: run it again from there")
	w.agents["ship"] = nil
	w.act(ActRerun, "01")
	w.run(time.Minute)
	w.want(Completed, "reserve", "charge", "ship", "undo charge", "charge", "ship", "ship", "undo charge", "undo reserve", "reserve", "charge", "ship")
}

// Law 14: a step whose outcome is unknown keeps its key when it is run again, unless its success has come meanwhile.
func TestRerunOfAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		w := newWorld(t, three)
		w.agents["charge"] = hang
		w.start()
		w.run(2 * time.Hour)
		first := w.begin("charge")
		if late {
			w.give("o1", answering(first, did("late")))
			w.run(time.Minute)
		}
		w.agents["charge"] = nil
		w.act(ActRerun, "01")
		w.run(time.Minute)
		again := w.begin("charge")
		if w.doc().Status != Completed || (again.Key == first.Key) == late || again.Attempt == first.Attempt && !late {
			t.Errorf("late %v: %s, %+v, then %+v", late, w.doc().Status, first, again)
		}
		if w.give("o1", answering(first, did("late"))); !late {
			w.run(time.Minute)
			if ev := w.doc().find("02"); len(ev.Twice) != 1 || len(ev.Undos) != 0 {
				t.Errorf("the first success after the second: %s", encoded(ev))
			}
		}
	}
}

// A success of an earlier run that comes late is undone by itself.
func TestLateSuccessOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { ask(p, p.Root, "x").Within = time.Minute; undoable(each(p, p.Root, "each", 1)) })
	w.agents["each 0"] = hang
	w.start()
	w.run(2 * time.Minute)
	_, id, path, run, _ := Address(w.asked[0].ReplyTo)
	w.act(ActRerun, "01")
	w.answer("yes.x", "second")
	w.run(time.Hour)
	w.act(ActRerun, "01")
	w.answer("yes.x", "third")
	w.give(id, Reply{Sort: "yes.x", Body: jsontext.Value(`"first"`), Path: path, Run: run})
	w.run(time.Second)
	w.give("o1", answering(w.begins[0], did("first")))
	w.run(time.Second)
	var back []string
	for _, x := range w.asked {
		if m, ok := x.Message.(takenBack); ok {
			back = append(back, m.Answer)
		}
	}
	if len(back) != 2 || back[0] != `"second"` || back[1] != `"first"` {
		t.Errorf("taken back: %v", back)
	}
	w.want(InProcess, "each 0", "each 0", "undo each 0")
}

// Law 14: children of a step that is run again are others.
func TestRerunOfChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		sub(p, p.Root, "sub", func(p *Plan) { undoable(do(p, p.Root, "a")) })
		split(p, p.Root, "split", 2, func(p *Plan) { undoable(do(p, p.Root, "b")) })
	})
	w.start()
	w.run(time.Minute)
	w.act(ActRerun, "01")
	w.run(time.Minute)
	w.want(Completed, "a", "b", "b", "undo b", "undo b", "undo a", "a", "b", "b")
	for id, status := range map[string]Status{"o1/01.00000": Undone, "o1/02.00001": Undone, "o1/01~1.00000": Completed, "o1/02~1.00001": Completed} {
		if d := w.keeper.get(id); d.Status != status {
			t.Errorf("%s: got %s, want %s", id, d.Status, status)
		}
	}
}

// A stuck instance is run again from a step on: what is open is cancelled, and what was done from there on is undone.
func TestRerunOfAStuckInstance(t *testing.T) {
	t.Parallel()
	broken := true
	w := newWorld(t, func(p *Plan) {
		undoable(do(p, p.Root, "a"))
		all := composite(p, p.Root, All, "all")
		undoable(do(p, p.Branch(all), "b")).Apply = func(v any, r jsontext.Value) (any, error) { mayPanic(&broken); return noting(v, r) }
		undoable(do(p, p.Branch(all), "c"))
		do(p, p.Branch(all), "d")
	})
	w.agents["d"] = hang
	w.start()
	w.run(time.Minute)
	w.want(Stuck, "a", "b", "c", "d")
	broken = false
	w.agents["d"] = nil
	w.act(ActRerun, "02")
	if w.doc().Status != Undoing {
		t.Errorf("got %s", w.doc().Status)
	}
	w.run(time.Minute)
	w.want(Completed, "a", "b", "c", "d", "undo b", "undo c", "b", "c", "d")
	w.act(ActRerun, "03")
	w.act(ActRerun, "02.01.01")
	w.act(ActRerun, "77")
	w.wantNote("rerun refused 77")
}

// A rerun can't begin beyond the step that the last run has come to.
func TestRerunGoesNoFurther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.start()
	w.run(time.Minute)
	w.agents["reserve"] = fails(9, Refused)
	w.act(ActRerun, "01")
	w.run(time.Minute)
	w.act(ActRerun, "02")
	w.wantNote("rerun refused 02 ada it has not come so far")
	w.want(Aborted, "reserve", "charge", "ship", "undo charge", "undo reserve", "reserve")
}

// A rerun after a pivot doesn't undo what was before it, and may still not fail.
func TestRerunAfterThePivot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		undoable(do(p, p.Root, "charge"))
		p.Add(p.Root, Pivot, "pivot")
		undoable(do(p, p.Root, "ship"))
	})
	w.start()
	w.run(time.Minute)
	w.agents["ship"] = fails(9, Refused)
	w.act(ActRerun, "03")
	w.run(time.Minute)
	w.want(Stuck, "charge", "ship", "undo ship", "ship")
	w.act(ActRerun, "01")
	w.run(time.Minute)
	w.want(Stuck, "charge", "ship", "undo ship", "ship", "charge", "ship")
	if w.doc().Pivot != "pivot" {
		t.Errorf("the pivot: got %q", w.doc().Pivot)
	}
	w.agents["charge"] = fails(9, Refused)
	w.act(ActRerun, "01") // before the pivot it may fail again
	w.run(time.Minute)
	w.want(Aborted, "charge", "ship", "undo ship", "ship", "charge", "ship", "charge")
}

// Skip lets a step that is stuck count as done, with a result or with what it has done itself.
func TestSkip(t *testing.T) {
	t.Parallel()
	build := func(p *Plan) {
		undoable(do(p, p.Root, "a")).Apply = func(v any, r jsontext.Value) (any, error) {
			if string(r) == `"did a"` {
				return nil, errBroken
			}
			return noting(v, r)
		}
		undoable(do(p, p.Root, "b"))
	}
	for result, state := range map[string]string{"": `["\"did b\""]`, `"by hand"`: `["\"by hand\"","\"did b\""]`} {
		w := newWorld(t, build)
		w.start()
		w.run(time.Minute)
		w.actOn("o1", ActSkip, "01", `"did a"`)
		w.wantNote("skip refused 01 ada its result: the function is broken")
		w.actOn("o1", ActSkip, "01", result)
		w.run(time.Minute)
		w.want(Completed, "a", "b")
		w.wantState(state)
		w.actOn("o1", ActSkip, "01", result)
		w.wantNote("skip refused 01 ada the step is not stuck")
		w.act(ActRerun, "01") // the agent has done it all the same
		w.run(time.Minute)
		if got := string(w.begins[3].Result); w.journal[3] != "undo a" || got != `"did a"` {
			t.Errorf("undone: %v, with %s", w.journal, got)
		}
	}
}

// A step that is skipped and then succeeds all the same is undone.
func TestSkippedAndDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		p.Add(p.Root, Pivot, "pivot")
		undoable(do(p, p.Root, "a")).Within = time.Minute
		do(p, p.Root, "b")
	})
	w.agents["a"] = hang
	w.start()
	w.run(2 * time.Minute)
	w.actOn("o1", ActSkip, "02", `"by hand"`)
	w.give("o1", answering(w.begin("a"), did("it")))
	w.run(time.Minute)
	w.want(Completed, "a", "b", "undo a")
	w.agents["a"] = nil
	w.act(ActRerun, "02")
	w.run(time.Minute)
	w.want(Completed, "a", "b", "undo a", "undo a", "a", "b")
	if got := string(w.begins[3].Result); got != `"by hand"` {
		t.Errorf("undone is %s, want what was done by hand", got)
	}
}

// Skip of an Ask takes its result as the answer would.
func TestSkipOfAnAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { p.Add(p.Root, Pivot, "pivot"); ask(p, p.Root, "x"); do(p, p.Root, "b") })
	w.start()
	w.answer("no.x", "no")
	w.want(Stuck)
	w.actOn("o1", ActSkip, "02", `"by hand"`)
	w.run(time.Minute)
	w.want(Completed, "b")
	w.wantState(`["\"no\"","\"by hand\"","\"did b\""]`)
}

// Skip of a fan waits for what is at work, and keeps what was done.
func TestSkipOfAFan(t *testing.T) {
	t.Parallel()
	for _, children := range []bool{false, true} {
		w := newWorld(t, func(p *Plan) {
			p.Add(p.Root, Pivot, "pivot")
			if children {
				split(p, p.Root, "fan", 3, func(p *Plan) { undoable(do(p, p.Root, "fan")) }).Within = time.Minute
			} else {
				undoable(each(p, p.Root, "fan", 3)).Within = time.Minute
			}
			do(p, p.Root, "after")
		})
		n := 0
		w.agents["fan"] = func(Begin) Done {
			if n++; n == 2 {
				return Done{}
			}
			return did("it")
		}
		w.agents["fan 1"] = hang
		w.start()
		w.run(2 * time.Minute)
		if w.doc().Status != Stuck {
			t.Fatalf("got %s", w.doc().Status)
		}
		w.act(ActSkip, "02")
		if w.doc().Status != InProcess {
			t.Errorf("got %s", w.doc().Status)
		}
		w.run(Grace)
		if got := w.journal[len(w.journal)-1]; w.doc().Status != Completed || got != "after" {
			t.Errorf("children %v: %s, %v", children, w.doc().Status, w.journal)
		}
	}
}

// An undo that is stuck may be let be.
func TestSkipOfAnUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["ship"], w.agents["undo charge"] = fails(9, Refused), fails(9, Never)
	w.start()
	w.run(time.Minute)
	w.want(Stuck, "reserve", "charge", "ship", "undo charge")
	w.act(ActSkip, "02")
	w.run(time.Minute)
	w.want(Aborted, "reserve", "charge", "ship", "undo charge", "undo reserve")
}

// Retry of a fan whose items have failed for good is refused; a gathering function is called again.
func TestRetryOfAFan(t *testing.T) {
	t.Parallel()
	broken := true
	w := newWorld(t, func(p *Plan) {
		p.Add(p.Root, Pivot, "pivot")
		n := each(p, p.Root, "each", 5)
		n.AtOnce = 2
		n.Apply = func(v any, r jsontext.Value) (any, error) { mayPanic(&broken); return counting(v, r) }
	})
	w.agents["each 4"] = fails(9, Refused)
	w.start()
	w.run(time.Minute)
	w.want(Stuck, "each 0", "each 1")
	broken = false
	w.act(ActRetry, "02")
	w.run(time.Minute)
	w.want(Stuck, "each 0", "each 1", "each 2", "each 3", "each 4")
	w.wantState(`["4"]`)
	w.act(ActRetry, "02")
	w.wantNote("retry refused 02 ada items of it have failed for good")
	w.act(ActSkip, "02")
	w.want(Completed, "each 0", "each 1", "each 2", "each 3", "each 4")
}

// A part that is stuck makes the whole stuck, so that somebody sees it; when it moves again, the whole does.
func TestStuckPartsAreSeen(t *testing.T) {
	t.Parallel()
	broken := true
	w := newWorld(t, func(p *Plan) {
		split(p, p.Root, "split", 2, func(p *Plan) {
			sub(p, p.Root, "sub", func(p *Plan) {
				undoable(do(p, p.Root, "leaf")).Apply = func(v any, r jsontext.Value) (any, error) { mayPanic(&broken); return v, nil }
			})
		})
		do(p, p.Root, "bad")
	})
	w.agents["bad"], w.agents["undo leaf"] = fails(9, Refused), fails(1, Never)
	w.start()
	w.run(time.Minute)
	w.want(Stuck, "leaf", "leaf")
	w.act(ActRetry, "01")
	w.wantNote("retry refused 01 ada a part of the step is stuck, not the step")
	if ev := w.doc().find("01"); len(ev.StuckParts) != 2 || ev.StuckParts[0].Msg != "stuck: o1/01.00000" {
		t.Errorf("got %+v", ev.StuckParts)
	}
	i := 0
	older := Done{Plan: "plan", ID: "o1", Path: "01", Item: &i, Outcome: Moving, Seq: 0}
	if w.give("o1", older) {
		t.Error("an older word of a part counts")
	}
	broken = false
	w.actOn("o1/01.00000/01.00000", ActRetry, "01", "")
	w.actOn("o1/01.00001/01.00000", ActRetry, "01", "")
	w.run(time.Minute)
	w.want(Stuck, "leaf", "leaf", "bad", "undo leaf", "undo leaf")
	w.actOn("o1/01.00000/01.00000", ActRetry, "01", "")
	w.actOn("o1/01.00001/01.00000", ActRetry, "01", "")
	w.run(time.Minute)
	w.want(Aborted, "leaf", "leaf", "bad", "undo leaf", "undo leaf", "undo leaf", "undo leaf")
}

// Law 6: a step whose alarm is lost waits on when somebody retries it: a sleep ends at the time that it was to end at,
// and a step with branches has more time.
func TestRetryOfAStepWhoseAlarmIsLost(t *testing.T) {
	t.Parallel()
	lose := func(w *world, at time.Time) {
		w.queue = nil // with the alarm
		w.now = at
		w.give("o1", Done{Plan: "plan", ID: "o1", Outcome: Lost, At: at, Error: "poisoned"})
		if d := w.doc(); d.Status != Stuck {
			t.Fatalf("got %s", encoded(d))
		}
	}
	t.Run("sleep", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(p *Plan) { sleep(p, p.Root, "sleep", time.Hour) })
		w.start()
		lose(w, w.doc().Alarm)
		w.act(ActRetry, "01")
		w.run(time.Minute)
		w.want(Completed)
	})
	t.Run("branches", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(p *Plan) {
			all := composite(p, p.Root, All, "all")
			all.Within = time.Hour
			do(p, p.Branch(all), "a")
			wait(p, p.Branch(all), "b", "go").Forever = true
		})
		w.start()
		w.run(0)
		lose(w, w.doc().Alarm)
		w.act(ActRetry, "01")
		w.run(59 * time.Minute)
		w.want(InProcess, "a")
		w.signal("go", "on")
		w.want(Completed, "a")
	})
}

// Law 2: a parent's cancel at an instance that has no parent is refused like anybody's.
func TestCancelByAParentThatThereIsNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.start()
	w.run(time.Minute)
	w.give("o1", Act{Plan: "plan", ID: "o1", Do: ActCancel, Parent: true})
	w.want(Completed, "reserve", "charge", "ship")
	w.wantNote("it has ended")
}
