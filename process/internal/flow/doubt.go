package flow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// An attempt whose outcome is unknown may have had its effect, or may not, and nobody can ask. So nothing follows from
// it: neither another attempt, nor a failure. The step is stuck until somebody says whether it was done, or has it done
// again, or until its agent answers after all. A step that is ending ends then.

const outcomeUnknown = "outcome unknown: "

// doubtful is a step of which nobody knows what an attempt has done.
type doubtful struct{ step }

// doubt makes the step wait until somebody says what an attempt has done.
func (s doubtful) doubt(why string) {
	ending := s.ev.Ending
	s.halt(haltDoubt, why)
	s.ev.Ending = ending
}

// resume lets a step go on whose outcome is known now.
func (s doubtful) resume() {
	ev := s.ev
	s.touched, s.moved = true, true
	ev.Status, ev.Halt, ev.Msg, ev.Timeout = InProcess, "", "", s.n.deadline(s.now)
	if ev.Ending != "" {
		ev.Timeout = s.now.Add(Grace)
	}
}

// Doubts reports that nobody knows what an attempt has done, as it has said itself.
func (d *Instance) Doubts(b Begin) bool {
	unknown := func(f Failure) bool { return f.N == b.Attempt && strings.HasPrefix(f.Msg, outcomeUnknown) }
	e := d.findRun(b.Path, b.Run)
	switch {
	case e == nil:
		return false
	case b.Undo > 0:
		return slices.ContainsFunc(e.Undos, func(u *Undo) bool {
			return u.N == b.Undo && sameItem(u.Item, b.Item) && slices.ContainsFunc(u.Failures, unknown)
		})
	case b.Item != nil && e.Fan != nil:
		return e.Fan.Doubts[*b.Item] != nil
	}
	return slices.ContainsFunc(e.Failures, unknown)
}

// note notes that nobody knows what a step has done that has ended in another way.
func (s doubtful) note(m Done) {
	n := Note{Do: "outcome unknown", Path: PathRun(s.ev.ID, s.ev.Run), Why: shorten(m.Error)}
	if m.Item != nil {
		n.Path += fmt.Sprintf("#%d", *m.Item)
	}
	same := func(x Note) bool { return x.Do == n.Do && x.Path == n.Path && x.Why == n.Why }
	if m.Outcome == Unknown && s.ev.Digest == "" && !slices.ContainsFunc(s.doc.Notes, same) {
		s.turn.note(n)
	}
}

// doubts are the items of a step of which nobody knows what an attempt has done.
type doubts struct{ fan }

// add notes such an item.
func (f doubts) add(i int, m Done) {
	x := f.ev.Fan
	if _, has := x.Doubts[i]; has {
		return
	}
	if x.Doubts == nil {
		x.Doubts = map[int]jsontext.Value{}
	}
	x.Doubts[i] = null(m.Echo)
	x.Bytes += len(x.Doubts[i]) + armedBytes
	f.touched = true
	x.note(i, Done{Error: outcomeUnknown + m.Error})
	if f.ev.Halt == haltDoubt {
		doubtful{f.step}.doubt(f.text())
	}
}

// settle forgets that nobody knows what an item has done, and returns the item.
func (f doubts) settle(i int) (item jsontext.Value, had bool) {
	x := f.ev.Fan
	if item, had = x.Doubts[i]; !had {
		return nil, false
	}
	x.Bytes -= len(item) + armedBytes
	x.Worst = slices.DeleteFunc(x.Worst, func(b BadItem) bool { return b.Index == i })
	switch delete(x.Doubts, i); {
	case f.ev.Halt != haltDoubt:
	case len(x.Doubts) > 0:
		doubtful{f.step}.doubt(f.text())
	default:
		doubtful{f.step}.resume()
	}
	if len(x.Doubts) == 0 {
		x.Doubts = nil
	}
	return item, true
}

// text names the items.
func (f doubts) text() string {
	all := slices.Sorted(maps.Keys(f.ev.Fan.Doubts))
	if len(all) == 0 {
		return ""
	}
	const most = 10
	why := fmt.Sprintf("items %d", all[0])
	for _, i := range all[1:min(len(all), most)] {
		why += fmt.Sprintf(", %d", i)
	}
	if len(all) > most {
		why += fmt.Sprintf(" and %d more", len(all)-most)
	}
	for _, b := range f.ev.Fan.Worst {
		if b.Index == all[0] {
			why += ": " + b.Msg
		}
	}
	return why
}

// decider takes what an operator says about what nobody else knows.
type decider struct{ operator }

// items does what an act says about the items that are in doubt, and reports whether the step has any.
func (o decider) items(m Act, s step) bool {
	if s.ev.Fan == nil || len(s.ev.Fan.Doubts) == 0 {
		return false
	}
	f := doubts{fan{s}}
	all := slices.Sorted(maps.Keys(s.ev.Fan.Doubts))
	if m.Item != nil {
		if all = []int{*m.Item}; s.ev.Fan.Doubts[*m.Item] == nil {
			o.refuse(m, fmt.Sprintf("the outcome of item %d is known", *m.Item))
			return true
		}
	}
	o.did(m)
	for _, i := range all {
		item, _ := f.settle(i)
		f.decide(m, i, Done{Item: &i, Attempt: s.ev.Fan.Tries[i] + 1, Result: m.Result, Echo: item, Error: notDone(m)})
	}
	f.goOn()
	return true
}

// decide does what an act says about an item.
func (f doubts) decide(m Act, i int, as Done) {
	x := f.ev.Fan
	switch {
	case m.Do == ActFail:
		f.itemFailed(i, as)
	case m.Do == ActRetry:
		if x.Tries == nil {
			x.Tries = map[int]int{}
		}
		x.Tries[i] = as.Attempt
		f.sendBegin(f.itemMessage(i, as.Echo, as.Attempt+1), 0)
	default:
		f.end(i)
		x.OK++
		if f.n.Undo != nil {
			x.arm(i, armItem(as))
		}
		if m.Result != nil && f.n.Gathered && f.ev.Ending == "" {
			f.gather(as)
		}
	}
}

func notDone(m Act) string {
	if m.By == "" {
		return "not done"
	}
	return "not done, says " + shorten(m.By)
}

// fail takes it that a step whose outcome is unknown was not done.
func (o decider) fail(m Act) {
	s, ok := o.stuckStep(m)
	switch {
	case !ok:
		return
	case s.ev.Halt != haltDoubt:
		o.refuse(m, "nobody doubts what it has done: retry it, or skip it")
		return
	case o.items(m, s):
		return
	}
	o.did(m)
	ending := s.ev.Ending
	doubtful{s}.resume()
	switch {
	case s.ev.Fan != nil: // an agent that lists items
		fan{s}.stop(notDone(m))
	case ending != "":
		s.ended()
	default:
		s.fail(notDone(m))
	}
}
