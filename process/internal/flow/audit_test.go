package flow

import (
	"fmt"
	"slices"
	"strings"
)

// audit judges a run by the journal of the agents, and by what was asked of the instance.
type audit struct{ *sim }

func (a audit) run() {
	for _, id := range a.ids() {
		d := a.keeper.get(id)
		if !d.over() || !d.Status.Final() {
			a.fault("at the end %s is %s: %s", id, d.Status, a.keeper.docs[id])
			return
		}
	}
	a.onceEach()
	a.order()
	d := a.keeper.get("o1")
	switch {
	case d.Final == Completed:
		if why := a.done("o1", a.plan, a.plan.Root); why != "" {
			a.fault("it is completed, and %s", why)
		}
	case d.Final == Canceled && !a.acts[ActCancel]:
		a.fault("it was cancelled, and nobody has asked for it")
	case d.Final == Aborted && d.Msg == "":
		a.fault("it has failed without a reason")
	case d.Final == Canceled && a.plan.Keep:
	default:
		if why := a.empty("o1", a.plan, a.plan.Root); why != "" {
			a.fault("it is %s, and %s", d.Final, why)
		}
	}
}

// onceEach: no effect is undone twice, and none is without a success that was told.
func (a audit) onceEach() {
	for _, x := range a.out.effects {
		if len(x.undone) > 1 {
			a.fault("effect %s of %s %s is undone %d times", x.id, x.doc, x.path, len(x.undone))
		}
		if x.taken == 0 {
			a.fault("nobody has heard of effect %s of %s %s", x.id, x.doc, x.path)
		}
	}
}

// order: of two effects that were taken and undone in one scope, the later one is undone before the undo of the earlier
// one begins. Both must have stood when the second undo was begun.
func (a audit) order() {
	state := map[string][]string{}
	for _, x := range a.out.effects {
		if x.taken > 0 && x.begun > 0 && a.wasTaken(x) {
			state[x.doc] = append(state[x.doc], x.id)
		}
	}
	for _, ids := range state {
		for _, i := range ids {
			for _, j := range ids {
				x, y := a.out.byID[i], a.out.byID[j]
				if x.taken < y.taken && y.taken < x.begun && x.begun < y.ended && x.run == y.run && a.inOrder(x, y) {
					a.fault("%s: effect %s of %s was taken before %s of %s, and its undo began first", x.doc, x.id, x.path, y.id, y.path)
				}
			}
		}
	}
}

// wasTaken reports that an effect was the step's, and did not come too late.
func (a audit) wasTaken(x *effect) bool {
	for _, ev := range a.keeper.get(x.doc).Events {
		if ev.ID == x.path && ev.Run == x.run {
			return ev.Late == 0 && len(ev.Twice) == 0
		}
	}
	return false
}

// inOrder reports that two steps are undone one after the other: they are in one scope, and not side by side.
func (a audit) inOrder(x, y *effect) bool {
	p := a.plan.Find(a.keeper.get(x.doc).Part)
	n, m := p.Node(x.path), p.Node(y.path)
	if n == m || n.Verb == Each || m.Verb == Each || (tree{plan: p}).sideBySide(x.path, y.path) {
		return false
	}
	return slices.Equal(scopesOf(n), scopesOf(m))
}

// scopesOf returns the scopes around a step that may be unwound by themselves.
func scopesOf(n *Node) (all []string) {
	if n.Else != nil {
		all = append(all, n.Path)
	}
	for s := n.Seq; s != nil; s = s.Owner.Seq {
		if s.Owner == nil {
			break
		}
		if s.Owner.Verb == Any {
			all = append(all, s.Path)
		}
		if s.Owner.Else != nil {
			all = append(all, s.Owner.Path)
		}
	}
	return all
}

// done says why a sequence of a document is not done as it should be, by what its agents have done, or "".
func (a audit) done(doc string, p *Plan, s *Seq) string {
	for _, n := range s.Steps {
		why := a.stepDone(doc, p, n)
		if n.Else != nil {
			why = a.eitherDone(doc, p, n, why)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// eitherDone: the step is done and its Else has nothing that stands, or the other way round.
func (a audit) eitherDone(doc string, p *Plan, n *Node, why string) string {
	if why == "" {
		why = a.empty(doc, p, n.Else)
	}
	other := a.stepEmpty(doc, p, n)
	if other == "" {
		other = a.done(doc, p, n.Else)
	}
	if why == "" || other == "" {
		return ""
	}
	return why + "; and in place of its Else, " + other
}

func (a audit) stepDone(doc string, p *Plan, n *Node) string {
	if a.skips[place{doc, n.Path, wholeStep}] {
		return ""
	}
	live := len(a.out.live(place{doc, n.Path, wholeStep}))
	most := 1
	if pivots(p) && a.acts[ActRerun] {
		most = 100 // what was done before the pivot is not undone when it is run again
	}
	switch n.Verb {
	case Do, Ask:
		if n.undoable() && (live == 0 || live > most) {
			return fmt.Sprintf("step %s of %s has %d effects", n.Name, doc, live)
		}
	case If:
		b := 1
		if a.grown.traits[n].yes {
			b = 0
		}
		for i, x := range n.Branches {
			why := ""
			if i == b {
				why = a.done(doc, p, x)
			} else {
				why = a.empty(doc, p, x)
			}
			if why != "" {
				return why
			}
		}
	case All:
		for _, b := range n.Branches {
			if why := a.done(doc, p, b); why != "" {
				return why
			}
		}
	case Any:
		return a.oneOf(doc, p, n)
	case Each:
		return a.itemsDone(doc, n, most)
	case Split, Child:
		return a.childrenDone(doc, n)
	}
	return ""
}

// oneOf: one branch is done, and the others have nothing that stands.
func (a audit) oneOf(doc string, p *Plan, n *Node) string {
	whys := []string{}
	for i, b := range n.Branches {
		why := a.done(doc, p, b)
		for j, other := range n.Branches {
			if i != j && why == "" {
				why = a.empty(doc, p, other)
			}
		}
		if why == "" {
			return ""
		}
		whys = append(whys, why)
	}
	return fmt.Sprintf("no branch of %s stands alone: %s", n.Name, strings.Join(whys, "; "))
}

// itemsDone: all items but those that may fail have an effect, and none has two.
func (a audit) itemsDone(doc string, n *Node, most int) string {
	x := a.grown.traits[n]
	if n.Undo == nil {
		return ""
	}
	may := n.Tolerate
	if n.Share > 0 {
		may = int(n.Share * float64(x.items))
	}
	by := map[string]int{}
	for _, e := range a.out.effects {
		if e.path == n.Path && len(e.undone) == 0 && !e.spared && (e.doc == doc || isPage(e.doc, doc, n.Path)) {
			by[fmt.Sprint(e.doc, e.item)]++
		}
	}
	for at, live := range by {
		if live > most {
			return fmt.Sprintf("item %s of step %s has %d effects", at, n.Name, live)
		}
	}
	if len(by)+may < x.items {
		return fmt.Sprintf("step %s of %s has done %d of %d items", n.Name, doc, len(by), x.items)
	}
	return ""
}

// isPage reports that a document is a part of a step of another.
func isPage(id, doc, path string) bool {
	rest, ok := strings.CutPrefix(id, doc+"/"+path)
	if run, again := strings.CutPrefix(rest, "~"); again {
		_, rest, _ = strings.Cut(run, ".")
		rest = "." + rest
	}
	return ok && len(rest) == len(".00000") && !strings.Contains(rest[1:], ".")
}

// children returns the parts of a step: the pages of an Each, else the children, also those in pages.
func (a audit) children(doc string, n *Node) (all []string) {
	for _, id := range a.ids() {
		switch {
		case !isPage(id, doc, n.Path):
		case n.Child != nil && a.keeper.get(id).Page != nil:
			all = append(all, a.children(id, n)...)
		default:
			all = append(all, id)
		}
	}
	return all
}

// childrenDone: as many children are done as must be, and the others have nothing that stands.
func (a audit) childrenDone(doc string, n *Node) string {
	want := 1
	if n.Verb == Split {
		want = a.grown.traits[n].items - n.Tolerate
		if n.Share > 0 {
			want = a.grown.traits[n].items - int(n.Share*float64(a.grown.traits[n].items))
		}
	}
	done := 0
	for _, id := range a.children(doc, n) {
		d := a.keeper.get(id)
		switch {
		case d.Final == Completed:
			if why := a.done(id, n.Child, n.Child.Root); why != "" {
				return fmt.Sprintf("the child %s is completed, and %s", id, why)
			}
			done++
		default:
			if why := a.empty(id, n.Child, n.Child.Root); why != "" {
				return fmt.Sprintf("the child %s is %s, and %s", id, d.Final, why)
			}
		}
	}
	if done < want {
		return fmt.Sprintf("%d children of step %s are done, want %d", done, n.Name, want)
	}
	return ""
}

// empty says what stands of a sequence in a document, or "".
func (a audit) empty(doc string, p *Plan, s *Seq) string {
	for _, n := range s.Steps {
		why := a.stepEmpty(doc, p, n)
		if why == "" && n.Else != nil {
			why = a.empty(doc, p, n.Else)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

func (a audit) stepEmpty(doc string, p *Plan, n *Node) string {
	if pivots(p) {
		return "" // what was done before it is not undone
	}
	if live := a.out.live(place{doc, n.Path, wholeStep}); len(live) > 0 {
		return fmt.Sprintf("effect %s of step %s of %s stands", live[0].id, n.Name, doc)
	}
	for _, b := range n.Branches {
		if why := a.empty(doc, p, b); why != "" {
			return why
		}
	}
	if n.Verb != Each && n.Child == nil {
		return ""
	}
	for _, id := range a.children(doc, n) {
		d := a.keeper.get(id)
		if n.Child != nil {
			if d.Final == Completed && n.Child.undoable && !a.skips[place{doc, n.Path, wholeStep}] {
				return fmt.Sprintf("the child %s is completed", id)
			}
			if why := a.empty(id, n.Child, n.Child.Root); why != "" {
				return why
			}
		} else if live := a.out.live(place{id, n.Path, wholeStep}); len(live) > 0 {
			return fmt.Sprintf("effect %s of the page %s stands", live[0].id, id)
		}
	}
	return ""
}

// pivots reports that a plan has a pivot.
func pivots(p *Plan) bool {
	return slices.ContainsFunc(p.Root.Steps, func(n *Node) bool { return n.Verb == Pivot })
}
