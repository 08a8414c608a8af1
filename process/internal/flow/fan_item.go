package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fanItem is an item of a fan, or a child, or a page.
type fanItem struct {
	s step
	i int
}

// armedItem is what the undo of an item needs.
type armedItem struct {
	Item   jsontext.Value `json:"item" millrace:"secret"`
	Result jsontext.Value `json:"result" millrace:"secret"`
}

// Armed returns what an undo of an item gets.
func Armed(raw jsontext.Value) (item, result jsontext.Value, err error) {
	var x armedItem
	if err := json.Unmarshal(raw, &x); err != nil {
		return nil, nil, fmt.Errorf("what is to be undone: %w", err)
	}
	return x.Item, x.Result, nil
}

// armItem returns what the undo of an item will need.
func armItem(m Done) jsontext.Value {
	raw, err := json.Marshal(armedItem{Item: null(m.Echo), Result: null(m.Result)})
	if err != nil { // its bytes are JSON, as they come from a message
		return nil
	}
	return raw
}

// begin begins an attempt at the item.
func (t fanItem) begin(item jsontext.Value, attempt int, delay time.Duration) {
	m, i := t.s.beginMessage(), t.i
	m.Attempt, m.Item, m.Key, m.State, m.Input = attempt, &i, t.s.key(i, 0), nil, item
	t.s.sendBegin(m, delay)
}

// done takes the end of an attempt, or the word of a part that has ended. It reports whether the fan goes on.
func (t fanItem) done(m Done) bool {
	ev, x, i := t.s.ev, t.s.ev.Fan, t.i
	child := t.s.inParts()
	ended := i < 0 || i >= x.N || Bit(x.Ended, i)
	if !ended && !child && ev.open() && m.Outcome != Unknown {
		t.settle()
	}
	switch {
	case m.Outcome == OK && !ended:
		t.ok(m)
	case m.Outcome == OK && i >= 0 && i < x.N && !child:
		t.okAgain(m)
		return false
	case ended, !ev.open(), !child && m.Attempt != x.Tries[i]+1:
		t.s.noteUnknown(m)
		return false // it was taken before, or comes too late and has done nothing
	case !child && m.Outcome == Unknown:
		t.doubt(m)
	case !child && ev.Ending == "" && t.retry(m):
		return false
	default:
		t.failed(m)
	}
	return true
}

// retry begins another attempt, and reports whether there is one.
func (t fanItem) retry(m Done) bool {
	delay, again := pace{t.s}.again(m, m.Attempt)
	if !again {
		return false
	}
	t.s.fold.touched = true
	t.s.ev.Fan.tried(t.i, m.Attempt)
	t.begin(m.Echo, m.Attempt+1, delay)
	return true
}

// end notes that the item has ended.
func (t fanItem) end() {
	x := t.s.ev.Fan
	t.s.fold.touched = true
	x.Ended = setBit(x.Ended, t.i)
	x.Left--
	if delete(x.Tries, t.i); len(x.Tries) == 0 {
		x.Tries = nil
	}
}

// failed takes the failure of the item for good.
func (t fanItem) failed(m Done) {
	ev, x := t.s.ev, t.s.ev.Fan
	t.end()
	withdrawn := m.Outcome == Withdrawn && ev.Ending != ""
	if withdrawn && t.s.fold.doc.Keep {
		x.OK++ // a rerun will have to undo it
		return
	}
	if x.Bad = setBit(x.Bad, t.i); withdrawn {
		return
	}
	ev.Failed += max(1, m.Failed)
	x.note(t.i, m)
}

// ok takes the success of the item. One that comes after the end of the step is taken back.
func (t fanItem) ok(m Done) {
	ev, x := t.s.ev, t.s.ev.Fan
	t.end()
	if !ev.open() {
		t.late(m)
		return
	}
	x.OK++
	if ev.Failed += m.Failed; m.Failed > 0 {
		x.note(t.i, m)
	}
	if !t.s.inParts() && t.s.n.Undo != nil {
		x.arm(t.i, armItem(m))
		t.newEffect(m)
		if n := t.s.fold.doc.size(); n > MaxSize && ev.goesOn() && ev.Ending == "" {
			t.s.fail("results that an undo may need: " + tooLarge(n).Error())
			return
		}
	}
	if ev.Ending == "" && t.s.n.Gathered {
		gathering{t.s}.gather(m)
	}
}

// okAgain takes another success of the item, which has ended. One after a failure is taken back, and so is one with
// another effect.
func (t fanItem) okAgain(m Done) {
	ev, x := t.s.ev, t.s.ev.Fan
	switch {
	case Bit(x.Bad, t.i) && !Bit(x.Late, t.i):
		t.late(m)
	case t.s.n.Undo != nil && m.Effect != "" && t.newEffect(m):
		ev.Late++
		t.s.fold.touched = true
		t.takeBack(len(x.Effects[t.i]), m)
	}
}

// late takes back a success that nobody waits for any more.
func (t fanItem) late(m Done) {
	ev, x := t.s.ev, t.s.ev.Fan
	ev.Late++
	t.s.fold.touched = true
	x.Bad, x.Late = setBit(x.Bad, t.i), setBit(x.Late, t.i)
	if t.s.n.Undo != nil {
		t.newEffect(m)
		t.takeBack(max(1, len(x.Effects[t.i])), m)
	}
}

func (t fanItem) takeBack(number int, m Done) {
	i := t.i
	undoing{t.s}.start(&Undo{N: number, Item: &i, Result: armItem(m), Late: true})
}

// newEffect notes the effect of a success, and reports whether it is a new one.
func (t fanItem) newEffect(m Done) bool {
	x := t.s.ev.Fan
	this := digest(nil, m.Effect)
	if m.Effect == "" || slices.Contains(x.Effects[t.i], this) {
		return false
	}
	if x.Effects == nil {
		x.Effects = map[int][]string{}
	}
	x.Effects[t.i] = append(x.Effects[t.i], this)
	return true
}

// doubt notes that nobody knows what an attempt has done.
func (t fanItem) doubt(m Done) {
	x := t.s.ev.Fan
	if !x.doubt(t.i, m) {
		return
	}
	t.s.fold.touched = true
	if t.s.ev.Halt == haltDoubt {
		t.s.doubt(x.doubts())
	}
}

// settle forgets that nobody knows what the item has done. The step goes on if that was the last such item.
func (t fanItem) settle() (item jsontext.Value) {
	x := t.s.ev.Fan
	item, had := x.settle(t.i)
	switch {
	case !had || t.s.ev.Halt != haltDoubt:
	case len(x.Doubts) > 0:
		t.s.doubt(x.doubts())
	default:
		t.s.resume()
	}
	return item
}

// decide does what an operator says about the item, of which nobody knows what an attempt has done.
func (t fanItem) decide(m Act) {
	ev, x := t.s.ev, t.s.ev.Fan
	item := t.settle()
	as := Done{Item: &t.i, Attempt: x.Tries[t.i] + 1, Result: m.Result, Echo: item, Error: notDone(m)}
	switch m.Do {
	case ActFail:
		t.failed(as)
	case ActRetry:
		x.tried(t.i, as.Attempt)
		t.begin(as.Echo, as.Attempt+1, 0)
	default:
		t.end()
		x.OK++
		if t.s.n.Undo != nil {
			x.arm(t.i, armItem(as))
		}
		if m.Result != nil && t.s.n.Gathered && ev.Ending == "" {
			gathering{t.s}.gather(as)
		}
	}
}

func notDone(m Act) string {
	if m.By == "" {
		return "not done"
	}
	return "not done, says " + shorten(m.By)
}

// gathering is a fan that takes the results of its items into the state, or a page that keeps them for its parent.
type gathering struct{ s step }

// gather takes results into the state, or into the page. If that fails, the step is stuck, and the results wait.
func (g gathering) gather(m Done) {
	s, ev, results := g.s, g.s.ev, m.Results
	if !ev.Fan.Paged {
		results = []jsontext.Value{null(m.Result)}
	}
	if page := s.fold.doc.Page; page != nil {
		page.Results = append(page.Results, results...)
		if n := s.fold.doc.size(); n > MaxSize {
			page.Results = nil
			s.fail("results of items: " + tooLarge(n).Error())
		}
		return
	}
	if ev.Halt == haltTake {
		ev.Fan.Held = append(ev.Fan.Held, results...)
		return
	}
	g.takeAll(results)
}

// takeAll takes results into the state, or makes the step stuck and holds them.
func (g gathering) takeAll(results []jsontext.Value) bool {
	s, d := g.s, g.s.fold.doc
	before := d.State
	err := s.apply(s.n.Apply, results...)
	if n := d.size(); err == nil && n > MaxSize && len(d.State) > len(before) {
		err = tooLarge(n)
	}
	if err == nil {
		return true
	}
	d.State = before
	s.ev.Fan.Held = results
	s.halt(haltTake, err.Error())
	return false
}
