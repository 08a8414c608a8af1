package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// carry takes the instance of a world over to another plan, and reports whether it could.
func (w *world) carry(build func(p *Plan), renamed map[string]string) bool {
	w.t.Helper()
	to := newPlan(w.t, build)
	d, ok := w.doc().Carry(to, func(name string) string {
		if now, ok := renamed[name]; ok {
			return now
		}
		return name
	})
	if ok {
		w.keeper.whole, w.keeper.docs["o1"] = to, encoded(d)
	}
	return ok
}

// Law 13: an instance is taken over to another version with its open steps, and messages that are under way find them.
func TestCarry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) {
		undoable(do(p, p.Root, "pay"))
		all := composite(p, p.Root, All, "all")
		ask(p, p.Branch(all), "hold")
		undoable(do(p, p.Branch(all), "pack"))
	})
	w.agents["pack"] = hang
	w.start()
	w.run(time.Minute)
	pay, pack := w.begin("pay"), w.begin("pack")
	next := func(p *Plan) {
		do(p, p.Root, "check")
		undoable(do(p, p.Root, "charge"))
		do(p, p.Root, "pick")
		all := composite(p, p.Root, All, "all")
		ask(p, p.Branch(all), "hold")
		b := p.Branch(all)
		undoable(do(p, b, "pack"))
		do(p, b, "label")
		do(p, p.Root, "last")
	}
	if !w.carry(next, map[string]string{"pay": "charge"}) {
		t.Fatal("it can't be carried")
	}
	if w.give("o1", answering(pay, did("did pay"))) {
		t.Error("the repeat of a success before the upgrade changes the document")
	}
	w.give("o1", answering(pack, Done{Outcome: Failed, Error: "503"}))
	w.run(10 * time.Second)
	again := w.begin("pack")
	if again.Key != pack.Key || again.Attempt != 2 || again.Path == pack.Path {
		t.Errorf("the next attempt: %+v", again)
	}
	if !w.carry(next, nil) { // and to the version after that
		t.Fatal("it can't be carried twice")
	}
	w.answer("yes.hold", "r1")
	w.give("o1", answering(pack, did("of the first attempt")))
	w.agents["last"] = fails(9, Refused)
	w.run(time.Minute)
	w.want(Aborted, "pay", "pack", "pack", "label", "last", "undo pack", "undo charge")
	if w.give("o1", answering(again, did("of the first attempt"))) {
		t.Error("the same success by another attempt changes the document")
	}
}

// Law 13: an instance whose open steps are not in the other version goes on by its own.
func TestCarryIsRefused(t *testing.T) {
	t.Parallel()
	armed := func(p *Plan) { undoable(do(p, p.Root, "a")); wait(p, p.Root, "w", "signal") }
	for name, x := range map[string]struct {
		from, to func(p *Plan)
		ready    func(w *world)
	}{
		"the open step is missing": {from: armed, to: func(p *Plan) { undoable(do(p, p.Root, "a")) }},
		"an undo is missing":       {from: armed, to: func(p *Plan) { wait(p, p.Root, "w", "signal") }},
		"another verb":             {from: armed, to: func(p *Plan) { undoable(do(p, p.Root, "a")); sleep(p, p.Root, "w", time.Hour) }},
		"in a branch": {from: armed, to: func(p *Plan) {
			undoable(do(p, p.Root, "a"))
			n := composite(p, p.Root, All, "all")
			wait(p, p.Branch(n), "w", "signal")
			do(p, p.Branch(n), "b")
		}},
		"in another branch": {
			from: func(p *Plan) {
				n := composite(p, p.Root, All, "all")
				wait(p, p.Branch(n), "w", "signal")
				wait(p, p.Branch(n), "v", "other")
			},
			to: func(p *Plan) {
				n := composite(p, p.Root, All, "all")
				wait(p, p.Branch(n), "v", "other")
				wait(p, p.Branch(n), "w", "signal")
			},
		},
		"children": {from: func(p *Plan) { sub(p, p.Root, "s", armed) }, to: func(p *Plan) { sub(p, p.Root, "s", armed) }},
		"items":    {from: func(p *Plan) { each(p, p.Root, "hang", 2) }, to: func(p *Plan) { each(p, p.Root, "hang", 2) }},
		"unwinding": {
			from: func(p *Plan) {
				n := composite(p, p.Root, All, "all")
				undoable(do(p, p.Branch(n), "a"))
				do(p, p.Branch(n), "bad")
				do(p, p.NewElse(n), "b")
			},
			to: func(p *Plan) {
				n := composite(p, p.Root, All, "all")
				undoable(do(p, p.Branch(n), "a"))
				do(p, p.Branch(n), "bad")
				do(p, p.NewElse(n), "b")
			},
		},
	} {
		w := newWorld(t, x.from)
		w.agents["hang 0"], w.agents["undo a"], w.agents["bad"] = hang, hang, fails(9, Refused)
		w.start()
		w.run(time.Minute)
		before := string(w.keeper.docs["o1"])
		if w.carry(x.to, nil) {
			t.Errorf("%s: it was carried: %s", name, w.keeper.docs["o1"])
		}
		if after := string(encoded(w.doc())); after != before {
			t.Errorf("%s: it has changed", name)
		}
	}
}

// An instance that can't be carried now can be when it has come further.
func TestCarryLater(t *testing.T) {
	t.Parallel()
	with := func(p *Plan) { do(p, p.Root, "gone"); wait(p, p.Root, "w", "signal") }
	without := func(p *Plan) { wait(p, p.Root, "w", "signal"); do(p, p.Root, "new") }
	w := newWorld(t, with)
	w.agents["gone"] = hang
	w.start()
	w.run(time.Minute)
	if w.carry(without, nil) {
		t.Fatal("it was carried with an open step that is gone")
	}
	w.give("o1", answering(w.begin("gone"), did("it")))
	if !w.carry(without, nil) {
		t.Fatal("it can't be carried")
	}
	w.signal("signal", "hello")
	w.run(time.Minute)
	w.want(Completed, "gone", "new")
}

// Waiting names the steps that an upgrade must carry, with those that they belong to.
func TestWaiting(t *testing.T) {
	t.Parallel()
	p := newPlan(t, func(p *Plan) {
		do(p, p.Root, "a")
		all := composite(p, p.Root, All, "all")
		do(p, p.Branch(all), "b")
		branch := p.Branch(all)
		p.Add(branch, Then, "then")
		either := composite(p, branch, If, "if")
		do(p, p.Branch(either), "c")
		do(p, p.NewElse(all), "d")
	})
	want := [][]string{{"a"}, {"all", "b"}, {"all", "if", "c"}, {"d"}}
	if got := waiting(p.Root, nil); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Law 13: it is known beforehand which instances an upgrade can't carry: those with open steps that are gone, changed
// or elsewhere, or with steps that may still have to be undone. Parts that are open may end first.
func TestStrands(t *testing.T) {
	t.Parallel()
	// plan is the old plan but for some of its steps: first, in the place of charge, and last, in that of w.
	plan := func(first func(n *Node) *Node, choice bool, last func(p *Plan)) *Plan {
		return newPlan(t, func(p *Plan) {
			if first != nil {
				first(do(p, p.Root, "charge"))
			}
			yes, no := p.Root, p.Root
			if choice {
				either := composite(p, p.Root, If, "if")
				yes, no = p.Branch(either), p.Branch(either)
			}
			do(p, yes, "yes")
			undoable(do(p, no, "no"))
			each(p, p.Root, "each", 3)
			last(p)
		})
	}
	waits := func(p *Plan) { wait(p, p.Root, "w", "signal") }
	old := plan(undoable, true, waits)
	charged := "[if yes]: charge; [if no]: charge; [each]: charge; [w]: charge"
	for name, c := range map[string]struct {
		now  *Plan
		want string
	}{
		"the same":         {plan(undoable, true, waits), ""},
		"another verb":     {plan(undoable, true, func(p *Plan) { do(p, p.Root, "w") }), "[w]: w"},
		"the step is gone": {plan(nil, true, waits), "[charge]: charge; " + charged},
		"the undo is gone": {plan(func(n *Node) *Node { return n }, true, waits), charged},
		"elsewhere":        {plan(undoable, false, waits), "[if yes]: if; [if no]: if"},
	} {
		var got []string
		for _, x := range old.Strands(c.now, func(name string) string { return name }) {
			got = append(got, fmt.Sprintf("%v: %s", x.Waits, x.Cause))
		}
		if all := strings.Join(got, "; "); all != c.want {
			t.Errorf("%s: got %s, want %s", name, all, c.want)
		}
	}
}

// Law 13: a fingerprint is that of the structure. Deadlines, attempts and functions may change.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	base := newPlan(t, three)
	same := newPlan(t, func(p *Plan) {
		three(p)
		p.Node("01").Within, p.Node("02").Attempts, p.Within = time.Second, 9, time.Hour
		p.Node("03").Apply = nil
	})
	if base.Print != same.Print || base.Differs(same.Structure()) != "" {
		t.Errorf("other deadlines: %s", same.Differs(base.Structure()))
	}
	for want, build := range map[string]func(p *Plan){
		`step 04 do "more" is new`:                                                 func(p *Plan) { three(p); do(p, p.Root, "more") },
		`step 03 do "ship" is missing`:                                             func(p *Plan) { undoable(do(p, p.Root, "reserve")); undoable(do(p, p.Root, "charge")) },
		`step 03 do "ship" with an undo was 03 do "ship"`:                          func(p *Plan) { three(p); undoable(p.Node("03")) },
		`step 02 do "charge" by bank with an undo was 02 do "charge" with an undo`: func(p *Plan) { three(p); p.Node("02").By = "bank" },
		`step 03 do "ship" type was 03 do "ship"`:                                  func(p *Plan) { three(p); p.Node("03").Structure = "type" },
	} {
		p := newPlan(t, build)
		if got := p.Differs(base.Structure()); got != want || p.Print == base.Print {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// An address is read as it was written.
func TestAddress(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"o1", "o1/02~1.00003", "a b"} {
		for run := range 2 {
			plan, gotID, path, gotRun, ok := Address(address("plan", id, "02.01", run))
			if !ok || plan != "plan" || gotID != id || path != "02.01" || gotRun != run {
				t.Errorf("%s %d: got %s %s %s %d %v", id, run, plan, gotID, path, gotRun, ok)
			}
		}
	}
	for _, bad := range []string{"", "plan", "plan/o1", "plan/#01", "plan/o1#", "plan/o1#01~x"} {
		if _, _, _, _, ok := Address(bad); ok {
			t.Errorf("%q is read", bad)
		}
	}
	if got := TopID("o1/02.00001/03.00000"); got != "o1" || TopID("o1") != "o1" {
		t.Errorf("got %s", got)
	}
	if got := BeginKind("plan", "carrier"); got != channel.Kind("process.plan.begin.carrier") || BeginKind("plan", "") != "process.plan.begin" {
		t.Errorf("got %s", got)
	}
}

// Wants says whether an attempt is still to be made.
func TestWants(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *Plan) { do(p, p.Root, "a"); each(p, p.Root, "each", 2) })
	w.agents["a"] = fails(1, Failed)
	w.agents["each 0"] = hang
	w.start()
	if !w.doc().Wants(w.queue[0].m.(Begin)) {
		t.Error("it doesn't want its first attempt")
	}
	w.run(time.Minute)
	for i, want := range []bool{false, false, true, false} {
		if b := w.begins[i]; w.doc().Wants(b) != want {
			t.Errorf("%s, attempt %d: want %v", b.Name, b.Attempt, want)
		}
	}
	w.act(ActCancel, "")
	if w.doc().Wants(w.begins[2]) {
		t.Error("cancelled, it wants an item")
	}
	if w.doc().Wants(Begin{Path: "99"}) {
		t.Error("it wants what is not in it")
	}
	w = newWorld(t, func(p *Plan) { do(p, p.Root, "a") })
	w.agents["a"] = func(b Begin) Done {
		if b.Attempt == 1 {
			return Done{Outcome: Failed, Error: "503"}
		}
		return hang(b)
	}
	w.start()
	w.run(time.Minute)
	if first, second := w.doc().Wants(w.begins[0]), w.doc().Wants(w.begins[1]); first || !second {
		t.Errorf("in the second attempt: it wants the first: %v, and the second: %v", first, second)
	}
}

// Find finds the plans of parts.
func TestFind(t *testing.T) {
	t.Parallel()
	p := newPlan(t, func(p *Plan) {
		sub(p, p.Root, "outer", func(p *Plan) { sub(p, p.Root, "inner", func(p *Plan) { do(p, p.Root, "leaf") }) })
	})
	if x := p.Find("01/01"); x == nil || x.Step("leaf") == nil || x.Part != "01/01" {
		t.Errorf("got %+v", x)
	}
	for _, bad := range []string{"02", "01/02", "01/01/01"} {
		if p.Find(bad) != nil {
			t.Errorf("%s is found", bad)
		}
	}
	var names []string
	p.Nodes(func(_ *Plan, n *Node) { names = append(names, n.Name) })
	if want := []string{"outer", "inner", "leaf"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if Key("plan", "o1", "01", 0) != key("plan", "o1", "01", 0, wholeStep, 0) {
		t.Error("the key of a step is another one")
	}
	ev := &Event{Fan: &Fan{N: 7, Next: 3}}
	if Parts(ev, Split) != 3 || Parts(ev, Each) != 0 || Parts(ev, Child) != 1 {
		t.Error("parts of a step")
	}
	ev.Fan.Paged = true
	if Parts(ev, Each) != 7 {
		t.Error("pages of a step")
	}
}
