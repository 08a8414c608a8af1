package flow

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

func tooLarge(n int) error {
	return fmt.Errorf("%w: %d bytes; at most %d: keep large states and results in a store of your own, and their names in the state", ErrTooLarge, n, MaxSize)
}

// size is about how many bytes the document takes in the store, beside its early signals.
func (d *Instance) size() int {
	n := 300 + len(d.State) + 60*len(d.Shelf)
	for _, x := range d.Notes {
		n += 130 + len(x.Why) + len(x.By)
	}
	if d.Page != nil {
		n += sizeOf(d.Page.Results)
	}
	for _, ev := range d.Events {
		n += ev.size()
	}
	return n
}

// earlySize is about how many bytes the early signals take. They have room of their own, so that nobody who sends them
// keeps an instance from its start, or from going on.
func (d *Instance) earlySize() (n int) {
	for _, x := range d.Early {
		n += x.size()
	}
	return n
}

func (x Early) size() int { return 130 + len(x.Body) }

func (e *Event) size() int {
	n := 220 + len(e.State) + len(e.Result) + len(e.Msg) + 20*len(e.Twice)
	for _, f := range e.Failures {
		n += 60 + len(f.Msg)
	}
	for _, u := range e.Undos {
		n += 150 + len(u.State) + len(u.Result)
		for _, f := range u.Failures {
			n += 60 + len(f.Msg)
		}
	}
	for _, x := range e.StuckParts {
		n += 40 + len(x.Msg)
	}
	if e.Fan != nil {
		n += e.Fan.size()
	}
	return n
}

func (f *Fan) size() int {
	n := 100 + f.Bytes + sizeOf(f.Held) + 4*len(f.Ended) + 12*len(f.Tries) + len(f.Cursor)
	for _, x := range f.Effects {
		n += 8 + 20*len(x)
	}
	for _, x := range f.Worst {
		n += 40 + len(x.Msg) + len(x.Item)
	}
	return n
}

func sizeOf(values []jsontext.Value) (n int) {
	for _, x := range values {
		n += 1 + len(x)
	}
	return n
}
