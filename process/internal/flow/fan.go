package flow

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fan is a step of many items: an agent, a child or a place in a page for each.
type fan struct{ step }

// armedItem is what the undo of an item needs.
type armedItem struct {
	Item   jsontext.Value `json:"item"`
	Result jsontext.Value `json:"result"`
}

// Armed returns what an undo of an item gets.
func Armed(raw jsontext.Value) (item, result jsontext.Value, err error) {
	var x armedItem
	if err := json.Unmarshal(raw, &x); err != nil {
		return nil, nil, fmt.Errorf("what is to be undone: %w", err)
	}
	return x.Item, x.Result, nil
}

// begin begins a step of many items. More than a document holds lie in pages.
func (f fan) begin() {
	ev, n := f.ev, f.n
	if n.Listed {
		ev.Fan = &Fan{Paged: true, Listing: true}
		listed{f}.ask()
		return
	}
	var items []jsontext.Value
	err := f.user(func(state any) (err error) { items, err = n.Items(state); return err })
	if err != nil {
		f.halt(haltBegin, err.Error())
		return
	}
	if err := checkItems(items); err != nil {
		f.fail(err.Error())
		return
	}
	pages := chunks(items, f.plan.whole.bounds.page)
	switch {
	case len(items) == 0:
		ev.Fan = &Fan{}
		f.finish(Completed)
	case len(pages) == 1 && f.doc.size()+sizeOf(items) <= MaxSize:
		ev.Fan = newFan(items)
		f.more()
	case len(pages) > MaxPages:
		f.fail(fmt.Sprintf("%d items are more than %d pages hold; list them by an agent: see EachFrom", len(items), MaxPages))
	default:
		ev.Fan = &Fan{Paged: true}
		for _, page := range pages {
			f.addPage(page, min(len(pages), f.n.pagesAtOnce()))
		}
	}
}

func newFan(items []jsontext.Value) *Fan {
	return &Fan{N: len(items), Left: len(items), Items: len(items), Rest: items, Bytes: sizeOf(items)}
}

// takeRest takes the next item out of those that are not begun yet.
func (f *Fan) takeRest() {
	f.Bytes -= len(f.Rest[0]) + 1
	if f.Rest = f.Rest[1:]; len(f.Rest) == 0 {
		f.Rest = nil
	}
}

// arm keeps what the undo of an item will need.
func (f *Fan) arm(i int, v jsontext.Value) {
	if f.Armed == nil {
		f.Armed = map[int]jsontext.Value{}
	}
	f.Armed[i] = v
	f.Bytes += len(v) + armedBytes
}

const armedBytes = 8 // of an item's number in the document

// disarm takes out what the undo of an item needs. ok is false if it has none.
func (f *Fan) disarm(i int) (v jsontext.Value, ok bool) {
	if v, ok = f.Armed[i]; !ok {
		return nil, false
	}
	f.Bytes -= len(v) + armedBytes
	if delete(f.Armed, i); len(f.Armed) == 0 {
		f.Armed = nil
	}
	return v, true
}

// stop forgets the items that are not begun, and the results that could not be taken.
func (f *Fan) stop() {
	f.Bytes -= sizeOf(f.Rest)
	f.Rest, f.Held, f.Listing, f.Asked = nil, nil, false, false
}

// letGo forgets all that is kept of items that have ended.
func (f *Fan) letGo() {
	f.Rest, f.Armed, f.Held, f.Tries, f.Doubts, f.Cursor, f.Bytes = nil, nil, nil, nil, nil, nil, 0
}

// checkItems refuses items that no page holds.
func checkItems(items []jsontext.Value) error {
	for i, x := range items {
		if len(x) > maxPageSize {
			return fmt.Errorf("item %d has %d bytes; want at most %d: keep it in a store of your own, and its name in the item", i, len(x), maxPageSize)
		}
	}
	return nil
}

// chunks divides items into pages of at most so many.
func chunks(items []jsontext.Value, most int) (pages [][]jsontext.Value) {
	first, size := 0, 0
	for i, x := range items {
		if i > first && (i-first == most || size+len(x) > maxPageSize) {
			pages = append(pages, items[first:i])
			first, size = i, 0
		}
		size += len(x) + 1
	}
	return append(pages, items[first:])
}

// atWork is how many items, children or pages are at work.
func (f *Fan) atWork() int { return f.Next - (f.N - f.Left) }

// atOnce is how many of them may be.
func (f fan) atOnce() int {
	switch page := f.doc.Page; {
	case f.ev.Fan.Paged:
		return f.n.pagesAtOnce()
	case page != nil && page.Hold:
		return 0
	case page != nil:
		return page.AtOnce
	}
	return f.n.AtOnce
}

// more begins as many items as may be at work.
func (f fan) more() {
	ev, x := f.ev, f.ev.Fan
	for most := f.atOnce(); ev.goesOn() && ev.Ending == "" && x.Next < x.N && x.atWork() < most; {
		i := x.Next
		if x.Paged {
			x.Next++
			parts(f).ask(i, ActGo, 0)
			continue
		}
		item := x.Rest[0]
		var state jsontext.Value
		if f.n.Child != nil {
			var ok bool
			if state, ok = (parts(f)).state(item); !ok {
				return
			}
		}
		x.Next++
		x.takeRest()
		if f.n.Child != nil {
			parts(f).start(i, Start{State: state, Part: f.n.Child.Part})
		} else {
			f.sendBegin(f.itemMessage(i, item, 1), 0)
		}
		f.touched = true
	}
}

func (f fan) itemMessage(i int, item jsontext.Value, attempt int) Begin {
	m := f.beginMessage()
	m.Attempt, m.Item, m.Key, m.State, m.Input = attempt, &i, f.key(i, 0), nil, item
	return m
}

// done takes the end of an item, of a child, or of a page.
func (f fan) done(m Done) {
	ev, x, i := f.ev, f.ev.Fan, *m.Item
	child := x.Paged || f.n.Child != nil
	ended := i < 0 || i >= x.N || Bit(x.Ended, i)
	if !ended && !child && ev.open() && m.Outcome != Unknown {
		doubts{f}.settle(i)
	}
	switch {
	case m.Outcome == OK && !ended:
		f.itemOK(i, m, child)
	case m.Outcome == OK && i >= 0 && i < x.N && !child:
		f.itemAgain(i, m)
		return
	case ended, !ev.open(), !child && m.Attempt != x.Tries[i]+1:
		doubtful(f).note(m)
		return // it was taken before, or comes too late and has done nothing
	case !child && m.Outcome == Unknown:
		doubts{f}.add(i, m)
	case !child && ev.Ending == "" && retryItem(f, i, m):
		return
	default:
		f.itemFailed(i, m)
	}
	f.goOn()
}

// retryItem begins another attempt at an item, and reports whether there is one.
func retryItem(f fan, i int, m Done) bool {
	delay, again := pace(f).again(m, m.Attempt)
	if !again {
		return false
	}
	x := f.ev.Fan
	f.touched = true
	if x.Tries == nil {
		x.Tries = map[int]int{}
	}
	x.Tries[i] = m.Attempt
	f.sendBegin(f.itemMessage(i, m.Echo, m.Attempt+1), delay)
	return true
}

// goOn begins more where something has ended, and ends the step where nothing is left.
func (f fan) goOn() {
	if !f.ev.goesOn() {
		return
	}
	if why := (doubts{f}).text(); why != "" {
		doubtful(f).doubt(why)
		return
	}
	if f.ev.Ending == "" && f.ev.Failed > f.tolerated() {
		f.stop(f.tooMany())
		return
	}
	f.more()
	listed{f}.ask()
	f.ended()
}

// tooMany says that more items have failed than may.
func (f fan) tooMany() string {
	x, first := f.ev.Fan, ""
	if len(x.Worst) > 0 {
		first = ": " + x.Worst[0].Msg
	}
	return fmt.Sprintf("%d of %d items failed; at most %d may%s", f.ev.Failed, x.Items, f.tolerated(), first)
}

// tolerated is how many items may fail.
func (f fan) tolerated() int {
	if f.n.Share == 0 {
		return f.n.Tolerate
	}
	if f.doc.Page != nil || f.ev.Fan.Listing {
		return f.ev.Fan.Items // the parent knows how many there are, in the end
	}
	return int(f.n.Share * float64(f.ev.Fan.Items))
}

// end notes that an item has ended.
func (f fan) end(i int) {
	x := f.ev.Fan
	f.touched = true
	x.Ended = setBit(x.Ended, i)
	x.Left--
	if delete(x.Tries, i); len(x.Tries) == 0 {
		x.Tries = nil
	}
}

// itemFailed takes the failure of an item for good.
func (f fan) itemFailed(i int, m Done) {
	ev, x := f.ev, f.ev.Fan
	f.end(i)
	withdrawn := m.Outcome == Withdrawn && ev.Ending != ""
	if withdrawn && f.doc.Keep {
		x.OK++ // a rerun will have to undo it
		return
	}
	if x.Bad = setBit(x.Bad, i); withdrawn {
		return
	}
	ev.Failed += max(1, m.Failed)
	x.note(i, m)
}

// note remembers why an item has failed, or some of a page.
func (f *Fan) note(i int, m Done) {
	if len(f.Worst) == maxBad {
		return
	}
	bad := BadItem{Index: i, Msg: shorten(m.Error)}
	if len(m.Echo) <= maxBadItem {
		bad.Item = m.Echo
	}
	f.Worst = append(f.Worst, bad)
}

// itemOK takes the success of an item. One that comes after the end of the step is taken back.
func (f fan) itemOK(i int, m Done, child bool) {
	ev, x := f.ev, f.ev.Fan
	f.end(i)
	if !ev.open() {
		f.lateItem(i, m)
		return
	}
	x.OK++
	if ev.Failed += m.Failed; m.Failed > 0 {
		x.note(i, m)
	}
	if !child && f.n.Undo != nil {
		x.arm(i, armItem(m))
		f.newEffect(i, m)
		if n := f.doc.size(); n > MaxSize && ev.goesOn() && ev.Ending == "" {
			f.fail("results that an undo may need: " + tooLarge(n).Error())
			return
		}
	}
	if ev.Ending == "" && f.n.Gathered {
		f.gather(m)
	}
}

// itemAgain takes another success of an item that has ended. One after a failure is taken back, and so is one with
// another effect.
func (f fan) itemAgain(i int, m Done) {
	x := f.ev.Fan
	switch {
	case Bit(x.Bad, i) && !Bit(x.Late, i):
		f.lateItem(i, m)
	case f.n.Undo != nil && m.Effect != "" && f.newEffect(i, m):
		f.ev.Late++
		f.touched = true
		undoing(f).start(&Undo{N: len(x.Effects[i]), Item: &i, Result: armItem(m), Late: true})
	}
}

// lateItem takes back a success of an item that nobody waits for any more.
func (f fan) lateItem(i int, m Done) {
	x := f.ev.Fan
	f.ev.Late++
	f.touched = true
	x.Bad, x.Late = setBit(x.Bad, i), setBit(x.Late, i)
	if f.n.Undo != nil {
		f.newEffect(i, m)
		undoing(f).start(&Undo{N: max(1, len(x.Effects[i])), Item: &i, Result: armItem(m), Late: true})
	}
}

// newEffect notes the effect of an item, and reports whether it is a new one.
func (f fan) newEffect(i int, m Done) bool {
	x := f.ev.Fan
	this := digest(nil, m.Effect)
	if m.Effect == "" || slices.Contains(x.Effects[i], this) {
		return false
	}
	if x.Effects == nil {
		x.Effects = map[int][]string{}
	}
	x.Effects[i] = append(x.Effects[i], this)
	return true
}

// armItem returns what the undo of an item will need.
func armItem(m Done) jsontext.Value {
	raw, err := json.Marshal(armedItem{Item: null(m.Echo), Result: null(m.Result)})
	if err != nil { // its bytes are JSON, as they come from a message
		return nil
	}
	return raw
}

func null(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
}

// gather takes results into the state, or into the page. If that fails, the step is stuck, and the results wait.
func (f fan) gather(m Done) {
	ev, results := f.ev, m.Results
	if !ev.Fan.Paged {
		results = []jsontext.Value{null(m.Result)}
	}
	if page := f.doc.Page; page != nil {
		page.Results = append(page.Results, results...)
		if n := f.doc.size(); n > MaxSize {
			page.Results = nil
			f.fail("results of items: " + tooLarge(n).Error())
		}
		return
	}
	if ev.Halt == haltTake {
		ev.Fan.Held = append(ev.Fan.Held, results...)
		return
	}
	f.takeAll(results)
}

// takeAll takes results into the state, or makes the step stuck and holds them.
func (f fan) takeAll(results []jsontext.Value) bool {
	before := f.doc.State
	err := f.apply(f.n.Apply, results...)
	if n := f.doc.size(); err == nil && n > MaxSize && len(f.doc.State) > len(before) {
		err = tooLarge(n)
	}
	if err == nil {
		return true
	}
	f.doc.State = before
	f.ev.Fan.Held = results
	f.halt(haltTake, err.Error())
	return false
}

// stop ends a fan that has failed. Items at work are late; children are cancelled, and answer first.
func (f fan) stop(why string) {
	if f.stays() || !f.ev.Fan.Paged && f.n.Child == nil {
		f.fail(why)
		return
	}
	parts(f).cancel(Aborted, why)
	f.ended()
}

// ended ends a fan when nothing of it is open.
func (f fan) ended() {
	ev, x := f.ev, f.ev.Fan
	open := x.Left
	if ev.Ending != "" && !x.Paged {
		open = x.atWork() // the others were never begun
	}
	switch {
	case !ev.goesOn() || open > 0 || x.Listing && ev.Ending == "":
	case ev.Ending != "":
		f.step.ended()
	default:
		f.finish(Completed)
	}
}
