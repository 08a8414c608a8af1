package flow

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// fanStep is a step of many items: an agent, a child or a place in a page for each.
type fanStep struct{ baseStep }

// begin begins the items. More than a document holds lie in pages.
func (k fanStep) begin() {
	s, ev := k.s, k.s.ev
	s.fold.moved = true
	if s.n.Listed {
		ev.Fan = &Fan{Paged: true, Listing: true}
		pages{s}.ask()
		return
	}
	var items []jsontext.Value
	err := s.fold.user(func(state any) (err error) { items, err = s.n.Items(state); return err })
	if err != nil {
		s.halt(haltBegin, err.Error())
		return
	}
	if err := checkItems(items); err != nil {
		s.fail(err.Error())
		return
	}
	all := chunks(items, s.fold.plan.whole.bounds.page)
	switch {
	case len(items) == 0:
		ev.Fan = &Fan{}
		s.finish(Completed)
	case len(all) == 1 && s.fold.doc.size()+sizeOf(items) <= MaxSize:
		ev.Fan = newFan(items)
		k.more()
	case len(all) > MaxPages:
		s.fail(fmt.Sprintf("%d items are more than %d pages hold; list them by an agent: see EachFrom", len(items), MaxPages))
	default:
		ev.Fan = &Fan{Paged: true}
		for _, page := range all {
			pages{s}.add(page, min(len(all), s.n.pagesAtOnce()))
		}
	}
}

// atOnce is how many items, children or pages may be at work.
func (k fanStep) atOnce() int {
	switch page := k.s.fold.doc.Page; {
	case k.s.ev.Fan.Paged:
		return k.s.n.pagesAtOnce()
	case page != nil && page.Hold:
		return 0
	case page != nil:
		return page.AtOnce
	}
	return k.s.n.AtOnce
}

// more begins as many items as may be at work.
func (k fanStep) more() {
	s, ev, x := k.s, k.s.ev, k.s.ev.Fan
	for most := k.atOnce(); ev.goesOn() && ev.Ending == "" && x.Next < x.N && x.atWork() < most; {
		i := x.Next
		if x.Paged {
			x.Next++
			parts{s}.ask(i, ActGo, 0)
			continue
		}
		item := x.Rest[0]
		var state jsontext.Value
		if s.n.Child != nil {
			var ok bool
			if state, ok = (parts{s}).state(item); !ok {
				return
			}
		}
		x.Next++
		x.takeRest()
		if s.n.Child != nil {
			parts{s}.start(i, Start{State: state, Part: s.n.Child.Part})
		} else {
			fanItem{s, i}.begin(item, 1, 0)
		}
		s.fold.touched = true
	}
}

func (k fanStep) done(m Done) {
	switch {
	case m.List:
		goesOn, err := pages{k.s}.listed(m)
		switch {
		case err != nil:
			k.stop(err.Error())
		case goesOn:
			k.goOn()
		}
	case k.s.ev.Fan == nil || m.Item == nil:
		k.baseStep.done(m)
	case fanItem{k.s, *m.Item}.done(m):
		k.goOn()
	}
}

// goOn begins more where something has ended, and ends the step where nothing is left.
func (k fanStep) goOn() {
	ev := k.s.ev
	if !ev.goesOn() {
		return
	}
	if why := ev.Fan.doubts(); why != "" {
		k.s.doubt(why)
		return
	}
	if ev.Ending == "" && ev.Failed > k.tolerated() {
		k.stop(k.tooMany())
		return
	}
	k.more()
	pages{k.s}.ask()
	k.ended()
}

// tooMany says that more items have failed than may.
func (k fanStep) tooMany() string {
	x, first := k.s.ev.Fan, ""
	if len(x.Worst) > 0 {
		first = ": " + x.Worst[0].Msg
	}
	return fmt.Sprintf("%d of %d items failed; at most %d may%s", k.s.ev.Failed, x.Items, k.tolerated(), first)
}

// tolerated is how many items may fail.
func (k fanStep) tolerated() int {
	n, x := k.s.n, k.s.ev.Fan
	if n.Share == 0 {
		return n.Tolerate
	}
	if k.s.fold.doc.Page != nil || x.Listing {
		return x.Items // the parent knows how many there are, in the end
	}
	return int(n.Share * float64(x.Items))
}

// stop ends a fan that has failed. Items at work are late; children are cancelled, and answer first.
func (k fanStep) stop(why string) {
	if k.s.stays() || !k.s.inParts() {
		k.s.fail(why)
		return
	}
	parts{k.s}.cancel(Aborted, why)
	k.ended()
}

// ended ends a fan when nothing of it is open.
func (k fanStep) ended() {
	ev, x := k.s.ev, k.s.ev.Fan
	open := x.Left
	if ev.Ending != "" && !x.Paged {
		open = x.atWork() // the others were never begun
	}
	switch {
	case !ev.goesOn() || open > 0 || x.Listing && ev.Ending == "":
	case ev.Ending != "":
		k.s.ended()
	default:
		k.s.finish(Completed)
	}
}

func (k fanStep) late(why string) {
	if k.s.stays() {
		k.s.halt(haltLate, why)
		return
	}
	k.stop(why)
}

func (k fanStep) cancel() {
	if k.s.ev.Fan == nil { // it could not begin
		k.baseStep.cancel()
		return
	}
	parts{k.s}.cancel(Canceled, k.s.ev.Msg)
	k.goOn()
}

func (k fanStep) undo() {
	if k.s.ev.Fan == nil { // it could not begin, and was skipped with a result
		k.baseStep.undo()
		return
	}
	undoing{k.s}.beginItems()
}

func (k fanStep) waitOn() {
	k.s.reopen()
	k.goOn()
}

func (k fanStep) deny(why string) { k.stop(why) }

func (k fanStep) skip(result jsontext.Value) {
	if k.s.ev.Fan == nil { // it could not begin
		k.baseStep.skip(result)
		return
	}
	parts{k.s}.cancel(Skipped, k.s.ev.Msg)
	k.ended()
}

// retake takes the results that are held, and goes on.
func (k fanStep) retake(jsontext.Value) {
	held := k.s.ev.Fan.Held
	k.s.ev.Fan.Held = nil
	if (gathering{k.s}).takeAll(held) {
		k.waitOn()
	}
}
