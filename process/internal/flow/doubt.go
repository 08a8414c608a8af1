package flow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// An attempt whose outcome is unknown may have had its effect, or may not, and nobody can ask. So nothing follows from
// the attempt: neither another attempt, nor a failure. The step is stuck until somebody says whether it was done, or
// has it done again, or until its agent answers after all. A step that is ending ends then.

const outcomeUnknown = "outcome unknown: "

// doubt makes the step wait until somebody says what an attempt has done.
func (s step) doubt(why string) {
	ending := s.ev.Ending
	s.halt(haltDoubt, why)
	s.ev.Ending = ending
}

// Doubted reports that the step waits until somebody says what an attempt has done.
func (e *Event) Doubted() bool { return e.Halt == haltDoubt }

// resume lets a step go on whose outcome is known now.
func (s step) resume() {
	s.fold.touched, s.fold.moved = true, true
	s.reopen()
	if s.ev.Ending != "" {
		s.ev.Timeout = s.fold.now.Add(Grace)
	}
}

// noteUnknown notes that nobody knows what a step has done that has ended in another way.
func (s step) noteUnknown(m Done) {
	n := Note{Do: "outcome unknown", Path: PathRun(s.ev.ID, s.ev.Run), Why: shorten(m.Error)}
	if m.Item != nil {
		n.Path += fmt.Sprintf("#%d", *m.Item)
	}
	same := func(x Note) bool { return x.Do == n.Do && x.Path == n.Path && x.Why == n.Why }
	if m.Outcome == Unknown && s.ev.Digest == "" && !slices.ContainsFunc(s.fold.doc.Notes, same) {
		s.fold.note(n)
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

// doubt notes an item of which nobody knows what an attempt has done. It reports whether that is new.
func (f *Fan) doubt(i int, m Done) bool {
	if _, has := f.Doubts[i]; has {
		return false
	}
	if f.Doubts == nil {
		f.Doubts = map[int]jsontext.Value{}
	}
	f.Doubts[i] = null(m.Echo)
	f.Bytes += len(f.Doubts[i]) + armedBytes
	f.note(i, Done{Error: outcomeUnknown + m.Error})
	return true
}

// settle forgets that nobody knows what an item has done, and returns the item.
func (f *Fan) settle(i int) (item jsontext.Value, had bool) {
	if item, had = f.Doubts[i]; !had {
		return nil, false
	}
	f.Bytes -= len(item) + armedBytes
	f.Worst = slices.DeleteFunc(f.Worst, func(b BadItem) bool { return b.Index == i })
	if delete(f.Doubts, i); len(f.Doubts) == 0 {
		f.Doubts = nil
	}
	return item, true
}

// doubts names the items of which nobody knows what an attempt has done, or is empty.
func (f *Fan) doubts() string {
	all := slices.Sorted(maps.Keys(f.Doubts))
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
	for _, b := range f.Worst {
		if b.Index == all[0] {
			why += ": " + b.Msg
		}
	}
	return why
}
