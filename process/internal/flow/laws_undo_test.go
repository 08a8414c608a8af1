package flow

import (
	"testing"
	"time"
)

// Law 10: undo goes in the reverse order of ending, one after the other.
func TestUndoIsInReverseOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["ship"] = fails(9, Refused)
	w.agents["undo charge"] = hang
	w.start()
	w.run(time.Hour)
	w.want(Undoing, "reserve", "charge", "ship", "undo charge")
	w.give("o1", answering(w.begins[3], Done{Outcome: OK}))
	w.run(time.Hour)
	w.want(Aborted, "reserve", "charge", "ship", "undo charge", "undo reserve")
}

// Law 10: what ended side by side is undone side by side; it is the order of ending that counts, not that of the plan.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		undoable(do(p, p.Root, "first"))
		all := composite(p, p.Root, All, "all")
		undoable(do(p, p.Branch(all), "a"))
		b := p.Branch(all)
		undoable(do(p, b, "b1"))
		undoable(do(p, b, "b2"))
		do(p, p.Root, "last")
	})
	w.agents["last"] = fails(9, Never)
	w.agents["a"], w.agents["undo a"], w.agents["undo b2"] = hang, hang, hang
	w.start()
	w.run(time.Minute)
	w.give("o1", answering(w.begin("a"), did("at last")))
	w.run(time.Minute)
	w.want(Undoing, "first", "a", "b1", "b2", "last", "undo a", "undo b2")
	w.give("o1", answering(w.begin("b2"), Done{Outcome: OK}))
	w.run(time.Minute)
	w.want(Undoing, "first", "a", "b1", "b2", "last", "undo a", "undo b2")
	w.give("o1", answering(w.begin("a"), Done{Outcome: OK}))
	w.run(time.Minute)
	w.want(Aborted, "first", "a", "b1", "b2", "last", "undo a", "undo b2", "undo b1", "undo first")
}

// Law 10: an undo has a day; one that fails for good makes the instance stuck, until somebody acts.
func TestUndoThatFailsIsStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["ship"] = fails(9, Refused)
	w.agents["undo charge"] = func(b Begin) Done {
		if b.Attempt == 5 {
			return Done{Outcome: Never, Error: "no"}
		}
		return fails(5, Failed)(b)
	}
	w.start()
	w.run(time.Hour)
	w.want(Stuck, "reserve", "charge", "ship", "undo charge", "undo charge", "undo charge", "undo charge", "undo charge")
	if w.give("o1", answering(w.begins[3], Done{Outcome: Failed, Error: "again"})) {
		t.Error("the repeat of a failure counts")
	}
	w.act(ActRetry, "02")
	w.run(time.Hour)
	w.want(Aborted, "reserve", "charge", "ship", "undo charge", "undo charge", "undo charge", "undo charge", "undo charge", "undo charge", "undo reserve")
	keys := map[string]bool{}
	for _, b := range w.begins[3:9] {
		keys[b.Key] = true
	}
	if len(keys) != 1 || keys[w.begins[1].Key] {
		t.Errorf("the undo has the keys %v, want one of its own", keys)
	}
	w = newWorld(t, three)
	w.agents["ship"] = fails(9, Refused)
	w.agents["undo charge"] = hang
	w.start()
	w.run(UndoWithin + time.Minute)
	if w.doc().Status != Stuck {
		t.Errorf("after a day without an answer: %s", w.doc().Status)
	}
	w.give("o1", answering(w.begins[3], Done{Outcome: OK})) // it was done all the same
	w.run(time.Minute)
	w.want(Aborted, "reserve", "charge", "ship", "undo charge", "undo reserve")
}

// Law 10: repeated failures of an item's undo count once.
func TestRepeatsOfAnItemsUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { undoable(each(p, p.Root, "each", 1)); do(p, p.Root, "last") })
	w.agents["last"] = fails(9, Never)
	w.agents["undo each 0"] = hang
	w.start()
	w.run(time.Minute)
	failed := answering(w.begin("each"), Done{Outcome: Failed, Error: "503"})
	for range 9 {
		w.give("o1", failed)
	}
	if u := w.doc().find("01").Undos[0]; u.Attempt != 2 || u.Status != InProcess {
		t.Errorf("got %+v", u)
	}
}

// Law 10: undo can't be cancelled, nor does anything else reach it.
func TestUndoCannotBeCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["ship"] = fails(9, Refused)
	w.agents["undo charge"] = hang
	w.start()
	w.run(time.Minute)
	w.act(ActCancel, "")
	w.signal("signal", "hello")
	w.act(ActRerun, "01")
	w.want(Undoing, "reserve", "charge", "ship", "undo charge")
	w.agents["undo charge"] = nil
	w.give("o1", answering(w.begins[3], Done{Outcome: Failed, Error: "503"}))
	w.run(time.Hour)
	w.want(Aborted, "reserve", "charge", "ship", "undo charge", "undo charge", "undo reserve")
	w.wantNote("unheard signal")
	w.wantNote("rerun refused")
}

// Law 10: an undo has a deadline of its own, whatever time the whole has left.
func TestUndoHasADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { p.Within = time.Hour; three(p) })
	w.agents["ship"] = fails(9, Refused)
	w.agents["undo charge"] = hang
	w.start()
	w.run(2 * time.Hour)
	w.want(Undoing, "reserve", "charge", "ship", "undo charge")
	if b := w.begin("charge"); b.Undo != 1 || b.Within != 0 {
		t.Errorf("the undo is begun with %v of the time of the whole", b.Within)
	}
}

// Law 10: an undo gets the state as it was after its step, and the result.
func TestUndoGetsWhatWasTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["ship"] = fails(9, Refused)
	w.start()
	w.run(time.Minute)
	if b := w.begins[3]; string(b.State) != `["\"did reserve\"","\"did charge\""]` || string(b.Result) != `"did charge"` {
		t.Errorf("got %s and %s", b.State, b.Result)
	}
	if b := w.begins[4]; string(b.State) != `["\"did reserve\""]` || string(b.Result) != `"did reserve"` {
		t.Errorf("got %s and %s", b.State, b.Result)
	}
}

// A success that comes while its instance is being undone is undone like the others, once.
func TestSuccessDuringUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		undoable(do(p, p.Root, "a"))
		all := composite(p, p.Root, All, "all")
		undoable(do(p, p.Branch(all), "slow"))
		do(p, p.Branch(all), "bad")
	})
	w.agents["slow"], w.agents["bad"], w.agents["undo a"] = hang, fails(9, Refused), hang
	w.start()
	w.run(time.Minute) // its grace is over, too
	w.want(Undoing, "a", "slow", "bad", "undo a")
	w.give("o1", answering(w.begin("slow"), did("it")))
	w.run(time.Second)
	w.want(Undoing, "a", "slow", "bad", "undo a", "undo slow")
	w.give("o1", answering(w.begins[3], Done{Outcome: OK}))
	w.run(time.Hour)
	w.want(Aborted, "a", "slow", "bad", "undo a", "undo slow")
}

// Law 11: cancel wins over what has not begun; what is at work has its grace, and what was done is undone.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["ship"] = hang
	w.start()
	w.run(time.Minute)
	w.act(ActCancel, "")
	w.run(Grace - time.Second)
	w.want(Undoing, "reserve", "charge", "ship")
	w.run(time.Second)
	w.want(Canceled, "reserve", "charge", "ship", "undo charge", "undo reserve")
	if d := w.doc(); d.Msg != "canceled by ada" || d.Cancel.Why != "why not" {
		t.Errorf("got %s %+v", d.Msg, d.Cancel)
	}
	w.act(ActCancel, "")
	w.want(Canceled, "reserve", "charge", "ship", "undo charge", "undo reserve")
}

// Law 11: a step that succeeds within the grace is undone with the others.
func TestSuccessWithinTheGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["charge"] = hang
	w.start()
	w.run(time.Minute)
	w.act(ActCancel, "")
	w.give("o1", answering(w.begin("charge"), did("it")))
	w.run(time.Second)
	w.want(Canceled, "reserve", "charge", "undo charge", "undo reserve")
}

// Law 11: cancel in a wait, in a sleep and in the pause before an attempt takes effect at once.
func TestCancelOfWhatWaits(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(p *Plan){
		"wait":  func(p *Plan) { wait(p, p.Root, "x", "signal").Forever = true },
		"sleep": func(p *Plan) { sleep(p, p.Root, "x", time.Hour) },
		"pause": func(p *Plan) { do(p, p.Root, "x").Backoff = time.Minute },
	} {
		w := newWorld(t, func(p *Plan) { build(p); do(p, p.Root, "next") })
		w.agents["x"] = fails(9, Failed)
		w.start()
		w.run(time.Second)
		w.act(ActCancel, "")
		if d := w.doc(); d.Status != Canceled {
			t.Errorf("%s: got %s", name, encoded(d))
		}
	}
}

// Law 11: a cancel that comes before the start is not lost. Without a start it is forgotten after a day.
func TestCancelBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.act(ActCancel, "")
	w.run(time.Hour)
	w.start()
	w.run(time.Hour)
	w.want(Canceled)
	w = newWorld(t, three)
	w.act(ActCancel, "")
	w.run(25 * time.Hour)
	if d := w.doc(); d.Status != "" || !w.records[0].Delete {
		t.Errorf("after a day: %s %+v", encoded(d), w.records)
	}
}

// Law 11: a plan may keep what was done. Effects that were to be taken back anyway still are.
func TestCancelKeeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		p.Keep, p.bounds.page = true, 10
		any := composite(p, p.Root, Any, "any")
		undoable(do(p, p.Branch(any), "loser"))
		undoable(do(p, p.Branch(any), "winner"))
		undoable(each(p, p.Root, "each", 24))
		split(p, p.Root, "split", 2, func(p *Plan) { undoable(do(p, p.Root, "child")); wait(p, p.Root, "wait", "signal") })
	})
	w.agents["loser"] = hang
	w.start()
	w.run(10 * time.Second)
	w.act(ActCancel, "")
	w.give("o1", answering(w.begins[0], did("it"))) // within its grace
	w.run(time.Hour)
	undone := map[string]int{}
	for _, b := range w.begins {
		if b.Undo > 0 {
			undone[b.Name]++
		}
	}
	if d := w.doc(); d.Status != Canceled || len(undone) != 1 || undone["loser"] != 1 {
		t.Errorf("got %s, undone %v; want the loser alone", d.Status, undone)
	}
	w.act(ActRerun, "01") // which takes it all back
	w.run(time.Minute)
	for _, b := range w.begins {
		if b.Undo > 0 && b.Run == 0 && b.Name != "loser" {
			undone[b.Name]++
		}
	}
	if undone["each"] != 24 || undone["child"] != 2 || undone["winner"] != 1 {
		t.Errorf("undone by a rerun: %v", undone)
	}
}

// Law 11: cancel reaches children and pages, also those that have not begun, and each answers before the end.
func TestCancelReachesParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		all := composite(p, p.Root, All, "all")
		p.bounds.page = 8
		undoable(each(p, p.Branch(all), "pages", 60))
		split(p, p.Branch(all), "split", 3, func(p *Plan) {
			undoable(do(p, p.Root, "outer"))
			split(p, p.Root, "inner", 2, func(p *Plan) { undoable(do(p, p.Root, "leaf")); wait(p, p.Root, "wait", "signal") })
		})
	})
	w.agents["pages 7"] = hang
	w.start()
	w.run(10 * time.Second)
	w.act(ActCancel, "")
	w.run(time.Hour)
	if w.doc().Status != Canceled {
		t.Fatalf("got %s", w.keeper.docs["o1"])
	}
	for id := range w.keeper.docs {
		if d := w.keeper.get(id); !d.over() {
			t.Errorf("%s is %s", id, d.Status)
		}
	}
	did, undid := map[string]int{}, map[string]int{}
	for _, b := range w.begins {
		if b.Undo > 0 {
			undid[b.Name]++
		} else {
			did[b.Name]++
		}
	}
	if undid["leaf"] != 6 || undid["outer"] != 3 || undid["pages"] != did["pages"]-1 {
		t.Errorf("done %v, undone %v", did, undid)
	}
}

// A part whose word was lost, such as in the poison queue, gives it again when it is cancelled.
func TestLostWordOfAPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		p.bounds.page = 2
		all := composite(p, p.Root, All, "all")
		sub(p, p.Branch(all), "sub", func(p *Plan) { undoable(do(p, p.Root, "a")) })
		undoable(each(p, p.Branch(all), "each", 4))
	})
	w.start()
	for len(w.queue) > 0 && w.doc().Status == InProcess {
		x := w.queue[0]
		w.queue = w.queue[1:]
		if m, ok := x.m.(Done); ok && m.ID == "o1" {
			continue
		}
		if x.at.After(w.now) {
			break
		}
		w.deliver(x.m)
	}
	w.act(ActCancel, "")
	w.run(time.Minute)
	undone := 0
	for _, b := range w.begins {
		if b.Undo > 0 {
			undone++
		}
	}
	if w.doc().Status != Canceled || undone != 5 {
		t.Errorf("got %s, %d of 5 undone", w.doc().Status, undone)
	}
}

// A child's cancel may come before its start, and its word after the cancel.
func TestCancelAndStartOfAChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { sub(p, p.Root, "sub", func(p *Plan) { undoable(do(p, p.Root, "a")) }) })
	w.start()
	start := w.queue[0].m
	w.queue = w.queue[1:]
	w.act(ActCancel, "")
	w.run(time.Minute) // the cancel reaches the child
	w.deliver(start)
	w.deliver(start)
	w.run(time.Minute)
	w.want(Canceled)

	w = newWorld(t, func(p *Plan) { sub(p, p.Root, "sub", func(p *Plan) { undoable(do(p, p.Root, "a")) }) })
	w.agents["a"] = func(b Begin) Done { w.act(ActCancel, ""); return did("it") }
	w.start()
	w.run(time.Minute)
	w.want(Canceled, "a", "undo a")
}
