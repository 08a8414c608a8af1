package flow

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/internal/wire"
)

// shape is a state that a document may be in: how an instance comes there, and how it goes on.
type shape struct {
	name  string
	plan  func(p *Plan)
	until func(w *world)
	goOn  func(w *world)
}

func wrapped(address string) wire.Wrapped { return wire.Wrapped{Message: asked{}, ReplyTo: address} }

// shapes are documents in the middle of each verb, and in each state.
func shapes() []shape {
	return append(append(leaves(), composites()...), states()...)
}

// begun starts an instance in which some agents hang, and lets a while pass.
func begun(hanging ...string) func(w *world) {
	return func(w *world) {
		for _, name := range hanging {
			w.agents[name] = hang
		}
		w.start()
		w.run(10 * time.Second)
	}
}

// finishing answers the last begin of a step, and runs on.
func finishing(names ...string) func(w *world) {
	return func(w *world) {
		for _, name := range names {
			for _, ev := range w.doc().Events {
				if ev.Name == name {
					w.give("o1", Done{Plan: "plan", ID: "o1", Path: ev.ID, Run: ev.Run, Attempt: ev.Attempt, Outcome: OK, Result: jsontext.Value(`"` + name + `"`)})
				}
			}
		}
		w.run(3 * time.Hour)
	}
}

func later(d time.Duration) func(w *world) { return func(w *world) { w.run(d) } }

func then(all ...func(w *world)) func(w *world) {
	return func(w *world) {
		for _, f := range all {
			f(w)
		}
	}
}

func failing(name, outcome string) func(w *world) {
	return func(w *world) { w.agents[name] = fails(99, outcome) }
}

func acting(do, path string) func(w *world) { return func(w *world) { w.act(do, path) } }

func leaves() []shape {
	return []shape{
		{"do", three, begun("charge"), finishing("charge")},
		{"do-late", three, begun("charge"), later(3 * time.Hour)},
		{"do-pause", func(p *Plan) { do(p, p.Root, "a").Backoff = 4 * time.Minute; do(p, p.Root, "b") }, then(failing("a", Failed), begun()), finishing()},
		{"ask", func(p *Plan) { ask(p, p.Root, "x"); do(p, p.Root, "b") }, begun(), func(w *world) { w.answer("yes.x", "r1"); w.run(time.Hour) }},
		{"ask-refused", func(p *Plan) { undoable(do(p, p.Root, "a")); ask(p, p.Root, "x") }, begun(), func(w *world) { w.answer("no.x", "n"); w.run(time.Hour) }},
		{"wait", func(p *Plan) { wait(p, p.Root, "w", "signal"); do(p, p.Root, "b") }, begun(), func(w *world) { w.signal("signal", "s"); w.run(time.Hour) }},
		{"sleep", func(p *Plan) { sleep(p, p.Root, "z", time.Hour); do(p, p.Root, "b") }, begun(), later(2 * time.Hour)},
		{"pivot", func(p *Plan) { undoable(do(p, p.Root, "a")); p.Add(p.Root, Pivot, "pivot"); do(p, p.Root, "b") }, begun("b"), then(acting(ActCancel, ""), finishing("b"))},
		{"pivot-late", func(p *Plan) { p.Add(p.Root, Pivot, "pivot"); do(p, p.Root, "b") }, then(begun("b"), later(2*time.Hour)), then(acting(ActRetry, "02"), later(time.Hour))},
		{"pivot-failed", func(p *Plan) { p.Add(p.Root, Pivot, "pivot"); do(p, p.Root, "b") }, then(failing("b", Refused), begun()), then(acting(ActRetry, "02"), later(time.Hour))},
	}
}

func composites() []shape {
	branches := func(verb Verb) func(p *Plan) {
		return func(p *Plan) {
			n := composite(p, p.Root, verb, "n")
			n.Cond = func(any) bool { return true }
			undoable(do(p, p.Branch(n), "a"))
			undoable(do(p, p.Branch(n), "b"))
			do(p, p.NewElse(n), "instead")
			do(p, p.Root, "last")
		}
	}
	items := func(p *Plan) {
		n := undoable(each(p, p.Root, "e", 6))
		n.AtOnce, n.Tolerate = 3, 1
		do(p, p.Root, "last")
	}
	paged := func(p *Plan) {
		p.bounds.page = 2
		undoable(each(p, p.Root, "e", 11)).Tolerate = 1
		do(p, p.Root, "last")
	}
	children := func(p *Plan) {
		split(p, p.Root, "s", 3, func(p *Plan) {
			undoable(do(p, p.Root, "a"))
			split(p, p.Root, "t", 2, func(p *Plan) { undoable(do(p, p.Root, "leaf")); wait(p, p.Root, "w", "signal") })
		})
		do(p, p.Root, "last")
	}
	return []shape{
		{"if", branches(If), begun("a"), finishing("a")},
		{"all", branches(All), begun("b"), finishing("b")},
		{"all-failing", branches(All), then(failing("a", Refused), begun("b", "undo b")), finishing("b")},
		{"any", branches(Any), begun("a", "b"), finishing("a")},
		{"any-won", branches(Any), then(begun("a", "b"), func(w *world) {
			w.give("o1", Done{Plan: "plan", ID: "o1", Path: "01.01.01", Attempt: 1, Outcome: OK, Result: jsontext.Value(`"a"`)})
		}), finishing("b")},
		{"any-loser", branches(Any), then(failing("a", Refused), begun("b", "undo a")), finishing("b")},
		{"each", items, begun("e 1", "e 4"), func(w *world) { endItem(w, "o1", 1); endItem(w, "o1", 4); w.run(time.Hour) }},
		{"each-failed", items, then(failing("e 0", Refused), begun("e 1", "e 4")), later(2 * time.Hour)},
		{"pages", paged, begun("e 0", "e 2", "e 4", "e 6"), func(w *world) {
			for _, page := range []string{"o1/01.00000", "o1/01.00001", "o1/01.00002", "o1/01.00003"} {
				endItem(w, page, 0)
			}
			w.run(time.Hour)
		}},
		{"pages-cancelled", paged, begun("e 0", "e 2", "e 4", "e 6"), then(acting(ActCancel, ""), later(time.Hour))},
		{"listed", func(p *Plan) { each(p, p.Root, "e", 0).Listed = true; do(p, p.Root, "last") }, func(w *world) {
			w.agents["e"] = listing4(9)
			begun("e 0")(w)
		}, func(w *world) { w.agents["e"] = listing4(9); endItem(w, "o1/01.00000", 0); w.run(time.Hour) }},
		{"children", children, begun(), func(w *world) {
			for _, c := range []string{"o1/01.00000", "o1/01.00001", "o1/01.00002"} {
				for _, g := range []string{c + "/02.00000", c + "/02.00001"} {
					w.give(g, Signal{Plan: "plan", ID: g, Sort: "signal", Body: jsontext.Value(`"s"`)})
				}
			}
			w.run(time.Minute)
		}},
		{"children-late", children, begun(), later(3 * time.Hour)},
		{"sub", func(p *Plan) { sub(p, p.Root, "s", three); do(p, p.Root, "last") }, begun("ship"), func(w *world) {
			w.give("o1/01.00000", Done{Plan: "plan", ID: "o1/01.00000", Path: "03", Attempt: 1, Outcome: OK, Result: jsontext.Value(`"x"`)})
			w.run(time.Minute)
		}},
	}
}

// endItem ends an item of a fan.
func endItem(w *world, id string, i int) {
	w.give(id, Done{Plan: "plan", ID: id, Path: "01", Attempt: 1, Item: &i, Outcome: OK, Result: jsontext.Value("1"), Echo: jsontext.Value("0")})
}

func states() []shape {
	broken := func(p *Plan) {
		undoable(do(p, p.Root, "a")).Apply = func(v any, r jsontext.Value) (any, error) { return nil, errBroken }
		do(p, p.Root, "b")
	}
	gathering := func(p *Plan) {
		each(p, p.Root, "e", 3).Apply = func(v any, r jsontext.Value) (any, error) { return nil, errBroken }
	}
	undone := func(w *world, name string) {
		for _, ev := range w.doc().Events {
			if ev.Name == name && len(ev.Undos) > 0 {
				w.give("o1", Done{Plan: "plan", ID: "o1", Path: ev.ID, Run: ev.Run, Attempt: ev.Undos[0].Attempt, Undo: ev.Undos[0].N, Outcome: OK})
			}
		}
	}
	return []shape{
		{"early", three, func(w *world) { w.signal("signal", "s") }, then(func(w *world) { w.start() }, later(time.Hour))},
		{"early-forgotten", three, func(w *world) { w.signal("signal", "s") }, later(30 * time.Hour)},
		{"early-cancel", three, acting(ActCancel, ""), then(func(w *world) { w.start() }, later(time.Hour))},
		{"heard-early", func(p *Plan) { do(p, p.Root, "a"); wait(p, p.Root, "w", "signal") }, func(w *world) { begun("a")(w); w.signal("signal", "s") }, finishing("a")},
		{"cancelling", three, then(begun("ship"), acting(ActCancel, "")), later(time.Hour)},
		{"undoing", three, then(failing("ship", Refused), begun("undo charge")), func(w *world) { undone(w, "charge"); w.run(time.Hour) }},
		{"undo-stuck", three, then(failing("ship", Refused), failing("undo charge", Never), begun()), then(acting(ActRetry, "02"), later(time.Hour))},
		{"stuck", broken, begun(), then(acting(ActCancel, ""), later(time.Hour))},
		{"stuck-gathering", gathering, begun(), then(acting(ActSkip, "01"), later(time.Hour))},
		{"completed", three, begun(), then(acting(ActRerun, "02"), later(time.Hour))},
		{"aborted", three, then(begun("charge"), later(2*time.Hour)), finishing("charge")},
		{"late-undo", three, func(w *world) { begun("charge", "undo charge")(w); w.run(2 * time.Hour); finishing("charge")(w) }, func(w *world) { undone(w, "charge"); w.run(time.Hour) }},
		{"rerunning", three, func(w *world) { begun("undo charge")(w); w.act(ActRerun, "01"); w.run(time.Minute) }, func(w *world) { undone(w, "charge"); w.run(time.Hour) }},
		{"carried", three, func(w *world) {
			w.agents["charge"] = fails(1, Failed)
			w.start()
			w.run(0)
			if !w.carry(three, nil) {
				w.t.Error("it can't be carried")
			}
		}, later(time.Hour)},
		{"trail", func(p *Plan) {
			p.bounds.lines = 2
			undoable(do(p, p.Root, "a"))
			for _, n := range []string{"b", "c", "d", "e", "f"} {
				do(p, p.Root, n)
			}
		}, begun("f"), finishing("f")},
		{"tombstone", three, then(begun(), later(31*24*time.Hour)), then(func(w *world) { w.start(); w.signal("signal", "s") }, later(31*24*time.Hour))},
	}
}
