package flow

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// The items of a fan in its document: what is begun, what has ended, and what an undo will need.

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

// tried notes how many attempts at an item have failed.
func (f *Fan) tried(i, attempts int) {
	if f.Tries == nil {
		f.Tries = map[int]int{}
	}
	f.Tries[i] = attempts
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

// atWork is how many items, children or pages are at work.
func (f *Fan) atWork() int { return f.Next - (f.N - f.Left) }

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
