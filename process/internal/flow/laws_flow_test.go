package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Law 6: the document has one alarm under way, never later than its earliest deadline. Later ones need no other.
func TestOneAlarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		all := composite(p, p.Root, All, "all")
		do(p, p.Branch(all), "hour")
		do(p, p.Branch(all), "minute").Within = time.Minute
		do(p, p.Branch(all), "day").Within = 24 * time.Hour
		do(p, p.Root, "next")
	})
	w.agents["hour"], w.agents["minute"], w.agents["day"] = hang, hang, hang
	w.start()
	wantAlarm := func(in time.Duration) {
		t.Helper()
		var alarms []time.Duration
		for _, x := range w.queue {
			if _, ok := x.m.(Alarm); ok {
				alarms = append(alarms, x.at.Sub(w.now))
			}
		}
		if !slices.Equal(alarms, []time.Duration{in}) {
			t.Errorf("alarms: got %v, want one in %v", alarms, in)
		}
	}
	wantAlarm(time.Minute)
	w.run(30 * time.Second)
	w.give("o1", answering(w.begin("minute"), did("it")))
	wantAlarm(30 * time.Second)
	w.run(31 * time.Second)
	if got := w.doc().Alarm.Sub(w.doc().Created); got != time.Hour {
		t.Errorf("the next alarm: got %v, want an hour", got)
	}
}

// Law 6: alarms that are older than the one under way, newer, or repeated do no harm.
func TestStrayAlarms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { do(p, p.Root, "a") })
	w.agents["a"] = hang
	w.start()
	at := w.doc().Alarm
	if w.give("o1", Alarm{Plan: "plan", ID: "o1", At: at.Add(-time.Minute)}) {
		t.Error("an older alarm changes the document")
	}
	w.act(ActNudge, "")
	w.act(ActNudge, "") // now three are under way
	w.run(59 * time.Minute)
	w.want(InProcess, "a")
	w.run(time.Minute)
	w.want(Aborted, "a")
	for range 3 {
		if w.give("o1", Alarm{Plan: "plan", ID: "o1", At: at}) {
			t.Error("a repeated alarm changes the document")
		}
	}
	w = newWorld(t, func(p *Plan) { do(p, p.Root, "a") })
	w.agents["a"] = hang
	w.start()
	w.give("o1", Alarm{Plan: "plan", ID: "o1", At: at.Add(time.Hour)})
	w.want(Aborted)
}

// Law 6: a deadline that is years away is reached by hops.
func TestDistantDeadlines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { wait(p, p.Root, "a", "signal").Within = 9 * 365 * 24 * time.Hour })
	w.start()
	for _, m := range w.queue {
		if _, alarm := m.m.(Alarm); alarm && m.at.Sub(w.now) > 366*24*time.Hour {
			t.Errorf("an alarm is to come at %v, in one hop", m.at)
		}
	}
	w.run(9*365*24*time.Hour - time.Second)
	w.want(InProcess)
	w.run(time.Second)
	w.want(Aborted)
}

// Law 6: composites and the whole have deadlines, too.
func TestDeadlinesOfScopes(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(p *Plan){
		"all": func(p *Plan) {
			n := composite(p, p.Root, All, "all")
			n.Within = time.Minute
			do(p, p.Branch(n), "a")
			undoable(do(p, p.Branch(n), "b"))
		},
		"whole": func(p *Plan) {
			p.Within = time.Minute
			undoable(do(p, p.Root, "b"))
			do(p, p.Root, "a")
		},
		"child": func(p *Plan) {
			sub(p, p.Root, "sub", func(p *Plan) { undoable(do(p, p.Root, "b")); do(p, p.Root, "a") }).Within = time.Minute
		},
		"children": func(p *Plan) {
			split(p, p.Root, "split", 1, func(p *Plan) { undoable(do(p, p.Root, "b")); do(p, p.Root, "a") }).Within = time.Minute
		},
		"pages": func(p *Plan) {
			p.bounds.page = 1
			undoable(each(p, p.Root, "e", 2)).Within = time.Minute
		},
	} {
		w := newWorld(t, build)
		w.agents["a"], w.agents["e 1"] = hang, hang
		w.start()
		w.run(time.Minute + Grace)
		w.want(Aborted, w.journal...)
		if last := w.journal[len(w.journal)-1]; last != "undo b" && last != "undo e 0" {
			t.Errorf("%s: got %v", name, w.journal)
		}
		if msg := w.doc().Msg; !strings.Contains(msg, "no end within 1m0s") && !strings.Contains(msg, "the time for all") {
			t.Errorf("%s: got %q", name, msg)
		}
	}
}

// Law 12: a signal before its step waits for it, also before the start. One that nobody hears is noted.
func TestEarlySignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		do(p, p.Root, "a")
		wait(p, p.Root, "first", "signal")
		wait(p, p.Root, "second", "signal")
		wait(p, p.Root, "third", "signal")
		wait(p, p.Root, "event", "event")
	})
	w.signal("signal", "1")
	w.give("o1", Reply{Sort: "event", Body: jsontext.Value(`"e"`)})
	w.agents["a"] = hang
	w.start()
	w.run(time.Minute)
	w.signal("signal", "2")
	w.signal("other", "x")
	w.want(InProcess, "a")
	w.give("o1", answering(w.begin("a"), did("a")))
	w.want(InProcess, "a")
	w.signal("signal", "3")
	w.want(Completed, "a")
	w.wantState(`["\"a\"","\"1\"","\"2\"","\"3\"","\"e\""]`)
	w.wantNote("unheard other")
	w.signal("signal", "4")
	w.wantNote("unheard signal")
}

// Law 12: without a start, a signal is forgotten after a day.
func TestSignalsWithoutAStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.signal("signal", "1")
	if w.doc().Status != Init {
		t.Errorf("got %s", w.doc().Status)
	}
	w.run(23 * time.Hour)
	if w.doc().Status != Init {
		t.Errorf("after 23 hours: got %s, want it kept", w.keeper.docs["o1"])
	}
	w.run(2 * time.Hour)
	if w.doc().Status != "" || len(w.records) != 1 || !w.records[0].Delete {
		t.Errorf("got %s, %+v", w.keeper.docs["o1"], w.records)
	}
	w.start()
	w.run(time.Hour)
	w.want(Completed, "reserve", "charge", "ship")
}

// An Else runs in place of a step that fails, after what was done in the step is undone. Then the plan goes on.
func TestElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		all := composite(p, p.Root, All, "all")
		undoable(do(p, p.Branch(all), "a"))
		do(p, p.Branch(all), "bad")
		undoable(do(p, p.NewElse(all), "instead"))
		do(p, p.Root, "last")
	})
	w.agents["bad"] = fails(9, Refused)
	w.start()
	w.run(time.Hour)
	w.want(Completed, "a", "bad", "undo a", "instead", "last")
	w.agents["last"] = fails(9, Refused)
	w.act(ActRerun, "02")
	w.run(time.Hour)
	w.want(Aborted, "a", "bad", "undo a", "instead", "last", "last", "undo instead")
}

// An Else that fails, fails the sequence that its step is in.
func TestElseThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		undoable(do(p, p.Root, "first"))
		n := do(p, p.Root, "a")
		inner := do(p, p.NewElse(n), "b")
		do(p, p.NewElse(inner), "c")
	})
	for _, name := range []string{"a", "b", "c"} {
		w.agents[name] = fails(9, Refused)
	}
	w.start()
	w.run(time.Hour)
	w.want(Aborted, "first", "a", "b", "c", "undo first")
}

// An Else doesn't begin any more in a scope that was cancelled while the Else's step was still being undone.
func TestElseInACancelledScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		all := composite(p, p.Root, All, "outer")
		b := p.Branch(all)
		inner := composite(p, b, All, "inner")
		undoable(do(p, p.Branch(inner), "a"))
		do(p, p.Branch(inner), "bad")
		do(p, p.NewElse(inner), "instead")
		do(p, p.Branch(all), "other")
		do(p, p.NewElse(all), "the outer way")
	})
	w.agents["bad"], w.agents["other"], w.agents["undo a"] = fails(9, Refused), hang, hang
	w.start()
	w.run(time.Second)
	w.give("o1", answering(w.begin("other"), Done{Outcome: Refused, Error: "no"}))
	w.run(time.Second)
	w.give("o1", answering(w.begin("a"), Done{Outcome: OK}))
	w.run(time.Hour)
	w.want(Completed, "other", "a", "bad", "undo a", "the outer way")
}

// The first branch of an Any that ends well wins. The effects of the others are undone, also while the plan goes on.
// The instance ends after that.
func TestAny(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		any := composite(p, p.Root, Any, "any")
		b := p.Branch(any)
		undoable(do(p, b, "done"))
		undoable(do(p, b, "slow"))
		undoable(do(p, p.Branch(any), "fast"))
		do(p, p.Root, "last")
	})
	w.agents["fast"] = hang
	w.agents["slow"] = hang
	w.start()
	w.run(time.Second)
	w.give("o1", answering(w.begin("fast"), did("it")))
	w.run(Grace - time.Second)
	w.want(InProcess, "done", "fast", "slow", "last")
	w.run(time.Second)
	w.want(Completed, "done", "fast", "slow", "last", "undo done")
	w.give("o1", answering(w.begin("slow"), did("late")))
	w.run(time.Hour)
	w.want(Completed, "done", "fast", "slow", "last", "undo done", "undo slow")
}

// A branch of an Any that fails is undone at once. The Any fails when all have failed.
func TestAnyFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		any := composite(p, p.Root, Any, "any")
		b := p.Branch(any)
		undoable(do(p, b, "a"))
		do(p, b, "bad")
		b = p.Branch(any)
		inner := composite(p, b, All, "all")
		inner.Within = time.Minute
		undoable(do(p, p.Branch(inner), "b"))
		do(p, p.Branch(inner), "c")
	})
	w.agents["bad"], w.agents["c"] = fails(9, Refused), hang
	w.start()
	w.run(time.Second)
	w.want(InProcess, "a", "b", "c", "bad", "undo a")
	w.run(time.Minute + Grace)
	w.want(Aborted, "a", "b", "c", "bad", "undo a", "undo b")
}

// If chooses a branch; without a second one it may do nothing.
func TestIf(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{true, false} {
		for _, branches := range []int{1, 2} {
			w := newWorld(t, func(p *Plan) {
				n := composite(p, p.Root, If, "if")
				n.Cond = func(any) bool { return yes }
				for i := range branches {
					do(p, p.Branch(n), fmt.Sprint("branch", i+1))
				}
				do(p, p.Root, "last")
			})
			w.start()
			w.run(time.Minute)
			want := []string{"branch1", "last"}
			if !yes {
				want = want[1:]
				if branches == 2 {
					want = []string{"branch2", "last"}
				}
			}
			w.want(Completed, want...)
		}
	}
}

// After a pivot nothing before it is undone, nothing is cancelled, and what fails is tried until it works or is stuck.
func TestPivot(t *testing.T) {
	t.Parallel()
	build := func(p *Plan) {
		p.Within = time.Hour
		undoable(do(p, p.Root, "charge"))
		p.Add(p.Root, Pivot, "pivot")
		n := undoable(do(p, p.Root, "ship"))
		n.Attempts, n.Within = 2, 10*time.Minute
		do(p, p.Root, "last")
	}
	w := newWorld(t, build)
	w.agents["ship"] = fails(4, Failed)
	w.start()
	w.run(time.Hour)
	w.want(Completed, "charge", "ship", "ship", "ship", "ship", "ship", "last")
	if ev := w.doc().find("01"); ev.Armed || ev.Result != nil || ev.State != nil {
		t.Errorf("before the pivot: %+v", ev)
	}

	w = newWorld(t, build)
	w.agents["ship"] = fails(1, Refused)
	w.start()
	w.run(2 * time.Hour)
	w.act(ActCancel, "")
	w.want(Stuck, "charge", "ship")
	w.wantNote("cancel refused")
	w.act(ActRetry, "03") // it is known to have failed, so it gets a new key
	w.agents["ship"] = nil
	w.run(time.Minute)
	w.want(Completed, "charge", "ship", "ship", "last")
	if a, b := w.begins[1], w.begins[2]; a.Key == b.Key {
		t.Error("the retry of a known failure has the old key")
	}

	w = newWorld(t, build)
	w.agents["ship"] = hang
	w.start()
	w.run(2 * time.Hour)
	w.want(Stuck, "charge", "ship")
	w.act(ActRetry, "03") // its outcome is unknown, so it keeps its key
	w.run(time.Minute)
	if a, b := w.begins[1], w.begins[2]; a.Key != b.Key || b.Attempt != 2 {
		t.Errorf("the retry of an unknown outcome: %+v", b)
	}
	w.run(time.Hour)
	w.give("o1", answering(w.begins[1], did("in the end"))) // stuck, and it works all the same
	w.run(time.Minute)
	w.want(Completed, "charge", "ship", "ship", "last")
}

// After a pivot a step that has an Else goes there, and a branch of an Any may fail as long as there is another.
func TestOtherWaysAfterThePivot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		p.Add(p.Root, Pivot, "pivot")
		n := do(p, p.Root, "a")
		do(p, p.NewElse(n), "instead")
		any := composite(p, p.Root, Any, "any")
		b := p.Branch(any)
		undoable(do(p, b, "b1"))
		do(p, b, "b2")
		do(p, p.Branch(any), "c")
		do(p, p.Root, "last")
	})
	w.agents["a"], w.agents["b2"], w.agents["c"] = fails(9, Refused), fails(9, Refused), hang
	w.start()
	w.run(time.Minute)
	w.want(InProcess, "a", "instead", "b1", "c", "b2", "undo b1")
	w.give("o1", answering(w.begin("c"), Done{Outcome: Refused, Error: "no"}))
	w.want(Stuck, "a", "instead", "b1", "c", "b2", "undo b1")
	w.actOn("o1", ActSkip, "03.02.01", `"by hand"`)
	w.run(time.Minute)
	w.want(Completed, "a", "instead", "b1", "c", "b2", "undo b1", "last")
}

// After a pivot parts are stuck, too, instead of failing: children, pages, and what is in them.
func TestPivotReachesParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		p.bounds.page = 2
		p.Add(p.Root, Pivot, "pivot")
		split(p, p.Root, "split", 1, func(p *Plan) {
			undoable(do(p, p.Root, "a"))
			sub(p, p.Root, "sub", func(p *Plan) { p.Within = time.Minute; do(p, p.Root, "bad") })
		})
		undoable(each(p, p.Root, "pages", 3))
	})
	w.agents["bad"], w.agents["pages 1"] = fails(1, Never), fails(1, Never)
	w.start()
	w.run(2 * time.Hour)
	w.want(Stuck, "a", "bad")
	w.agents["bad"] = nil
	w.actOn("o1/02.00000/02.00000", ActRetry, "01", "")
	w.run(time.Minute)
	w.want(Stuck, "a", "bad", "bad", "pages 0", "pages 1", "pages 2")
	w.actOn("o1/03.00000", ActSkip, "03", "")
	w.run(time.Minute)
	w.act(ActSkip, "03")
	w.run(time.Minute)
	w.want(Completed, "a", "bad", "bad", "pages 0", "pages 1", "pages 2")
}

// Agents of parts know the deadline of the step that the part belongs to, and that of the whole.
func TestPartsKnowTheDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		p.bounds.page, p.Within = 1, 10*time.Minute
		each(p, p.Root, "pages", 2).Within = 2 * time.Minute
		split(p, p.Root, "split", 1, func(p *Plan) { sub(p, p.Root, "sub", func(p *Plan) { do(p, p.Root, "leaf") }) })
		do(p, p.Root, "own")
	})
	w.start()
	w.run(time.Hour)
	got := map[string]time.Duration{}
	for _, b := range w.begins {
		got[b.Name] = b.Within
	}
	if got["pages"] != 2*time.Minute || got["leaf"] != 10*time.Minute || got["own"] != 10*time.Minute {
		t.Errorf("got %v", got)
	}
}

// A pivot doesn't spare what an Any's loser has done: that is undone when the loser has come to rest.
func TestLosersAtThePivot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		any := composite(p, p.Root, Any, "any")
		b := p.Branch(any)
		undoable(do(p, b, "done"))
		undoable(each(p, b, "items", 2))
		do(p, b, "slow")
		wait(p, p.Branch(any), "wait", "signal")
		p.Add(p.Root, Pivot, "pivot")
		do(p, p.Root, "last")
	})
	w.agents["slow"] = hang
	w.start()
	w.run(time.Second)
	w.signal("signal", "now")
	w.run(time.Minute)
	w.want(Completed, "done", "items 0", "items 1", "slow", "last", "undo items 1", "undo items 0", "undo done")
}

// A pivot can't stand where another way leads back, and the plan says so.
func TestPivotInThePlan(t *testing.T) {
	t.Parallel()
	p := NewPlan("plan", 1)
	any := composite(p, p.Root, Any, "any")
	p.Add(p.Branch(any), Pivot, "pivot")
	do(p, p.Branch(any), "a")
	if err := p.Finish(); err == nil || !strings.Contains(err.Error(), "step pivot: a pivot within an Any") {
		t.Errorf("got %v", err)
	}
}
