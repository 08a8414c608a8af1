package flow

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// Law 1: the same start again is once; another input under the same ID is refused.
func TestOneInstanceForAnID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.start()
	if w.give("o1", Start{Plan: "plan", ID: "o1", State: jsontext.Value(`[]`)}) {
		t.Error("the same start changes something")
	}
	other := Start{Plan: "plan", ID: "o1", State: jsontext.Value(`["x"]`)}
	if _, _, err := w.keeper.fold("o1", other, w.now); !errors.Is(err, ErrOtherInput) {
		t.Errorf("another start: got %v, want %v", err, ErrOtherInput)
	}
	w.run(time.Hour)
	w.want(Completed, "reserve", "charge", "ship")
	w.wantState(`["\"did reserve\"","\"did charge\"","\"did ship\""]`)
}

// Law 1: of two starts with different inputs, the one counts whose document was written first, also by StartNew.
func TestTheFirstInputCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	first := Start{Plan: "plan", ID: "o1", State: jsontext.Value(`["a"]`)}
	w.keeper.docs["o1"] = encoded(Instance{Plan: "plan", Status: Init, Created: w.now, Digest: first.Digest(), State: first.State})
	if _, _, err := w.keeper.fold("o1", Start{Plan: "plan", ID: "o1", State: jsontext.Value(`["b"]`)}, w.now); !errors.Is(err, ErrOtherInput) {
		t.Errorf("another start: got %v, want %v", err, ErrOtherInput)
	}
	w.signal("signal", "early")
	w.run(48 * time.Hour) // no alarm throws away an instance whose start is on its way
	w.give("o1", first)
	w.run(time.Minute)
	if d := w.doc(); d.Status != Completed || !strings.HasPrefix(string(d.State), `["a",`) {
		t.Errorf("got %s %s", d.Status, d.State)
	}
}

// Law 1: an ended instance is kept for its retention, and then known as ended. One that somebody must act on is kept.
func TestRetention(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["ship"] = fails(9, Refused)
	w.start()
	w.run(75 * 24 * time.Hour)
	if w.doc().Purged {
		t.Fatal("a failed one is gone after twice the retention")
	}
	first := w.doc().Purge
	w.act(ActRerun, "01")
	w.agents["ship"] = nil
	w.run(29 * 24 * time.Hour)
	if w.doc().Purged || w.doc().Status != Completed {
		t.Fatalf("%s: the alarm of the first end has ended the second retention", w.doc().Status)
	}
	if w.give("o1", Alarm{Plan: "plan", ID: "o1", At: first, Purge: true}) {
		t.Error("the alarm of the first end changes the document")
	}
	w.run(2 * 24 * time.Hour)
	d := w.doc()
	if !d.Purged || d.Status != Completed || d.Events != nil || d.State != nil {
		t.Errorf("got %s", encoded(d))
	}
	forgotten := func(r Record) bool { return r.Forget }
	if n := len(w.records); !slices.ContainsFunc(w.records[:n], forgotten) {
		t.Error("nobody is asked to forget its parts")
	}
	if deleted := func(r Record) bool { return r.Delete }; slices.ContainsFunc(w.records, deleted) {
		t.Error("its ID is free at once")
	}
	w.run(31 * 24 * time.Hour)
	if last := w.records[len(w.records)-1]; !last.Delete {
		t.Errorf("the last record: got %+v, want the document deleted", last)
	}
}

// Law 1: an instance whose late success can't be undone is kept until somebody has acted.
func TestRetentionWaitsForSomebody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["charge"] = hang
	w.agents["undo charge"] = fails(9, Never)
	w.start()
	w.run(2 * time.Hour)
	w.give("o1", answering(w.begin("charge"), did("r1")))
	w.run(400 * 24 * time.Hour)
	if w.doc().Status != Stuck {
		t.Fatalf("got %s", w.keeper.docs["o1"])
	}
	w.actOn("o1", ActSkip, "02", "")
	if w.doc().Status != Aborted {
		t.Errorf("got %s, want what it was", w.doc().Status)
	}
	w.run(100 * 24 * time.Hour)
	if !w.doc().Purged {
		t.Errorf("it stays for ever: %s", w.keeper.docs["o1"])
	}
}

// Law 2: what means nothing to a document changes nothing.
func TestForeignMessagesChangeNothing(t *testing.T) {
	t.Parallel()
	item := 3
	messages := []any{
		Done{Plan: "plan", ID: "o1", Path: "99", Attempt: 1, Outcome: OK},
		Done{Plan: "plan", ID: "o1", Path: "01", Run: 7, Attempt: 1, Outcome: OK},
		Done{Plan: "plan", ID: "o1", Path: "01", Attempt: 2, Outcome: Failed},
		Done{Plan: "plan", ID: "o1", Path: "01", Attempt: 1, Undo: 1, Outcome: OK},
		Done{Plan: "plan", ID: "o1", Path: "01", Attempt: 1, List: true, Outcome: OK},
		Done{Plan: "plan", ID: "o1", Path: "04", Item: &item, Attempt: 1, Outcome: OK},
		Done{Plan: "plan", ID: "o1", Path: "02", Outcome: Halted, Seq: 4},
		Alarm{Plan: "plan", ID: "o1", At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)},
		Alarm{Plan: "plan", ID: "o1", At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Purge: true},
		Reply{Sort: "nobody.listens", Path: "01"},
		Act{Plan: "plan", ID: "o1", Do: ActGo}, Act{Plan: "plan", ID: "o1", Do: ActUndo, Undo: 1}, Act{Plan: "plan", ID: "o1", Do: "dance"},
		"a text",
	}
	w := newWorld(t, func(p *Plan) { three(p); each(p, p.Root, "each", 3) })
	for _, m := range messages {
		if w.give("o1", m) {
			t.Errorf("before the start %T %+v changes the document", m, m)
		}
	}
	w.agents["reserve"] = hang
	w.start()
	w.run(time.Minute)
	for _, m := range messages {
		if w.give("o1", m) {
			t.Errorf("%T %+v changes the document", m, m)
		}
	}
}

// Law 2: a panic in a function of the plan keeps the result, and makes the instance stuck at that step.
func TestPanicKeepsTheResult(t *testing.T) {
	t.Parallel()
	broken := true
	w := newWorld(t, func(p *Plan) {
		undoable(do(p, p.Root, "a")).Apply = func(v any, r jsontext.Value) (any, error) {
			if broken {
				panic("oh")
			}
			return noting(v, r)
		}
		do(p, p.Root, "b")
	})
	w.start()
	w.run(3 * time.Hour) // its deadline doesn't matter any more
	w.want(Stuck, "a")
	if ev := w.doc().find("01"); string(ev.Result) != `"did a"` || ev.Msg != "panic: oh" {
		t.Errorf("got %s: %s", ev.Msg, ev.Result)
	}
	w.act(ActRetry, "01")
	w.want(Stuck, "a")
	broken = false
	w.act(ActRetry, "01")
	w.run(time.Hour)
	w.want(Completed, "a", "b")
	w.wantState(`["\"did a\"","\"did b\""]`)
	w.wantNote("retry 01 ada why not")
}

// Laws 2 and 5: what a stuck step has done is undone when the instance is cancelled.
func TestStuckSuccessIsUndone(t *testing.T) {
	t.Parallel()
	broken := func(any, jsontext.Value) (any, error) { return nil, errBroken }
	w := newWorld(t, func(p *Plan) { undoable(do(p, p.Root, "a")).Apply = broken })
	w.start()
	w.run(time.Minute)
	w.give("o1", answering(w.begin("a"), did("another result")))
	w.act(ActCancel, "")
	w.run(time.Hour)
	w.want(Canceled, "a", "undo a")
	if got := string(w.begins[1].Result); got != `"did a"` {
		t.Errorf("undone is %s, want what was done first", got)
	}
	w = newWorld(t, func(p *Plan) { sub(p, p.Root, "a", three).Apply = broken })
	w.start()
	w.run(time.Minute)
	w.want(Stuck, "reserve", "charge", "ship")
	w.act(ActCancel, "")
	w.run(time.Hour)
	w.want(Canceled, "reserve", "charge", "ship", "undo charge", "undo reserve")
}

// A step that can't even begin, because a function of the plan fails, begins when that is mended, or is cancelled.
func TestBrokenBeginnings(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(*Plan, *bool){
		"ask": func(p *Plan, broken *bool) {
			n := ask(p, p.Root, "x")
			n.Command = func(any) channel.Message { mayPanic(broken); return asked{"x"} }
		},
		"if": func(p *Plan, broken *bool) {
			n := composite(p, p.Root, If, "x")
			n.Cond = func(any) bool { mayPanic(broken); return true }
			do(p, p.Branch(n), "y")
		},
		"sleep": func(p *Plan, broken *bool) {
			sleep(p, p.Root, "x", 0).Until = func(_ any, now time.Time) time.Time { mayPanic(broken); return now }
		},
		"each": func(p *Plan, broken *bool) {
			each(p, p.Root, "x", 3).Items = func(any) ([]jsontext.Value, error) { mayPanic(broken); return numbers(3), nil }
		},
		"split": func(p *Plan, broken *bool) {
			split(p, p.Root, "x", 3, func(p *Plan) { do(p, p.Root, "y") }).Start = func(_ any, item jsontext.Value) (jsontext.Value, error) {
				if string(item) == "1" {
					mayPanic(broken)
				}
				return jsontext.Value("[]"), nil
			}
		},
		"sub": func(p *Plan, broken *bool) {
			sub(p, p.Root, "x", func(p *Plan) { do(p, p.Root, "y") }).Start = func(any, jsontext.Value) (jsontext.Value, error) {
				mayPanic(broken)
				return jsontext.Value("[]"), nil
			}
		},
	} {
		broken := true
		w := newWorld(t, func(p *Plan) { build(p, &broken) })
		w.start()
		w.run(3 * time.Hour)
		if d := w.doc(); d.Status != Stuck {
			t.Errorf("%s: got %s, want it stuck", name, d.Status)
		}
		canceled := *w
		canceled.keeper = newKeeper(w.keeper.whole, t.Errorf)
		for id, raw := range w.keeper.docs {
			canceled.keeper.docs[id] = raw
		}
		canceled.act(ActCancel, "")
		canceled.run(time.Hour)
		if d := canceled.doc(); d.Status != Canceled {
			t.Errorf("%s, cancelled: got %s", name, encoded(d))
		}
		broken = false
		w.act(ActRetry, "01")
		w.run(time.Minute)
		if name == "ask" {
			w.answer("yes.x", "yes")
		}
		if d := w.doc(); d.Status != Completed {
			t.Errorf("%s, mended: got %s", name, encoded(d))
		}
	}
}

func mayPanic(broken *bool) {
	if *broken {
		panic("broken")
	}
}

// Law 3: the key is the same for all attempts; each attempt is begun once, with its delay.
func TestAttemptsHaveOneKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, three)
	w.agents["charge"] = fails(2, Failed)
	w.start()
	w.run(time.Hour)
	w.want(Completed, "reserve", "charge", "charge", "charge", "ship")
	keys, all := map[string]bool{}, map[string]bool{}
	for i, b := range w.begins {
		all[b.Key] = true
		if b.Name == "charge" {
			keys[b.Key] = true
			if b.Attempt != i {
				t.Errorf("attempt: got %d, want %d", b.Attempt, i)
			}
		}
	}
	if len(keys) != 1 || len(all) != 3 {
		t.Errorf("got %d keys of charge, and %d in all; want 1 and 3", len(keys), len(all))
	}
	if first := w.begins[1]; first.Within != DefaultWithin {
		t.Errorf("the first attempt has %v, want %v", first.Within, DefaultWithin)
	}
	if last := w.begins[3]; last.Within >= DefaultWithin-time.Second || last.Within < DefaultWithin-5*time.Second {
		t.Errorf("the last attempt has %v, want what is left", last.Within)
	}
}

// Law 4: the write that ends the last child ends the parent and begins what follows; whichever child is the last.
func TestTheLastOneGathers(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		w := newWorld(t, func(p *Plan) {
			all := composite(p, p.Root, All, "all")
			for i := range 3 {
				do(p, p.Branch(all), fmt.Sprint("b", i))
			}
			do(p, p.Root, "after")
		})
		for i := range 3 {
			w.agents[fmt.Sprint("b", i)] = hang
		}
		w.start()
		w.run(time.Minute)
		for n, i := range order {
			done := answering(w.begin(fmt.Sprint("b", i)), did("it"))
			out, _, _ := w.keeper.fold("o1", done, w.now)
			if last := n == 2; len(out) > 0 != last {
				t.Errorf("%v: the end of branch %d emits %d messages", order, i, len(out))
			} else if last && out[0].(Begin).Name != "after" {
				t.Errorf("%v: the last one begins %s", order, out[0].(Begin).Name)
			}
		}
	}
}

// Law 4: children are counted by their index, not by their messages.
func TestRepeatedChildrenCountOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { each(p, p.Root, "each", 3); do(p, p.Root, "after") })
	for i := range 3 {
		w.agents[fmt.Sprint("each ", i)] = hang
	}
	w.start()
	w.run(time.Minute)
	for range 5 {
		w.give("o1", answering(w.begins[0], did("it")))
	}
	w.run(time.Minute)
	w.want(InProcess, "each 0", "each 1", "each 2")
	w.wantState(`["1"]`)
}

// Law 4: a failure beyond what is tolerated ends the parent at once. The others are cancelled.
func TestFailureEndsTheParent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		n := composite(p, p.Root, All, "all")
		do(p, p.Branch(n), "bad")
		undoable(do(p, p.Branch(n), "good"))
		wait(p, p.Branch(n), "long", "signal")
	})
	w.agents["good"] = hang
	w.agents["bad"] = fails(9, Refused)
	w.start()
	w.run(time.Second)
	w.want(Undoing, "bad", "good") // it waits for the one that is at work
	w.run(Grace)
	w.want(Aborted, "bad", "good")
	if d := w.doc(); d.Msg != "no" || d.find("01").Failed != 1 || d.find("01.03.01").Status != Canceled {
		t.Errorf("got %s", encoded(d))
	}
}

// Laws 1 and 5: an instance is kept while an agent may still succeed, whatever its retention. A later success is
// refused, and not ignored.
func TestRetentionWaitsForAgents(t *testing.T) {
	t.Parallel()
	short := func(p *Plan) {
		three(p)
		p.Retention = time.Minute
		for _, n := range p.nodes {
			n.Within = time.Minute
		}
	}
	hung := func(t *testing.T, after time.Duration) (*world, Done) {
		w := newWorld(t, short)
		w.agents["charge"] = hang
		w.start()
		w.run(after)
		return w, answering(w.begin("charge"), did("r1"))
	}
	for _, after := range []time.Duration{270 * time.Second, 47 * time.Hour} {
		w, late := hung(t, after)
		w.give("o1", late)
		w.run(time.Minute)
		if !slices.Contains(w.journal, "undo charge") || w.doc().Purged {
			t.Errorf("a success after %v: got %q and %s, want it undone", after, w.journal, encoded(w.doc()))
		}
		w.run(49 * time.Hour)
		if !w.doc().Purged {
			t.Errorf("it stays: %s", encoded(w.doc()))
		}
	}
	w, late := hung(t, 50*time.Hour)
	d := w.doc()
	if !d.Purged {
		t.Fatalf("it stays for ever: %s", encoded(d))
	}
	if _, _, err := w.keeper.whole.Advance("o1", d, late, w.now); !errors.Is(err, ErrPurged) {
		t.Errorf("got %v, want that it is refused", err)
	}
}

// Law 1: no retention is so long that it is over at once.
func TestLongRetention(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { three(p); p.Retention = math.MaxInt64 / 2 })
	w.agents["ship"] = fails(9, Refused)
	w.start()
	w.run(100 * 365 * 24 * time.Hour)
	if d := w.doc(); d.Purged || d.Status != Aborted {
		t.Errorf("got %s", encoded(d))
	}
}

// Law 6: a delay of any length can be sent. It never gets shorter with more failures.
func TestLongBackoff(t *testing.T) {
	t.Parallel()
	for _, backoff := range []time.Duration{1, time.Hour, 1<<44 + 1, channel.MaxDelay, math.MaxInt64} {
		w := newWorld(t, three)
		s, _ := (&fold{plan: w.keeper.whole, id: "o1"}).step(&Event{ID: "01"})
		s.n.Backoff = backoff
		least := min(backoff, channel.MaxDelay) / 2
		for failed := range 70 {
			if d := (pace{s}).delay(Done{}, failed); d < least || d > channel.MaxDelay {
				t.Errorf("Backoff %v, %d failures: got %v, want %v to %v", backoff, failed, d, least, channel.MaxDelay)
			}
		}
	}
}

// Law 6: a time that no document can hold makes the step stuck, and not the instance unreadable.
func TestSleepBeyondAllTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		sleep(p, p.Root, "sleep", 0).Until = func(any, time.Time) time.Time { return time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) }
	})
	w.start()
	w.run(time.Hour)
	if d := w.doc(); d.Status != Stuck || !strings.Contains(d.Events[0].Msg, "year 10000") {
		t.Errorf("got %s", encoded(d))
	}
}
