package flow

import (
	"cmp"
	"slices"
)

// shelf is the part of the trail that a document may need again: steps that have ended, but are undone if the instance
// fails, or may still hear of a second success. A document that has grown large puts them there, those that ended
// first before the others. It fetches them back, the last ones first, when all that ended later is undone.
type shelf struct{ fold *fold }

// A Shelved is a step on the shelf. Its row is the one that has the order.
type Shelved struct {
	ID    string `json:"id"`
	Run   int    `json:"run,omitzero"`
	Order int    `json:"order"`
	Armed bool   `json:"armed,omitzero"`
	Back  bool   `json:"back,omitzero"`  // see Event
	Asked bool   `json:"asked,omitzero"` // it is on its way back
}

const (
	maxFetch = 64       // steps that are asked for at once
	maxShelf = 24 << 10 // bytes of a step in a row
)

// put puts steps on the shelf if the document is large.
func (s shelf) put() {
	d := s.fold.doc
	size, most := d.size(), s.fold.plan.whole.bounds.shelf
	if size <= most {
		return
	}
	some := slices.Clone(d.Events)
	slices.SortStableFunc(some, func(a, b *Event) int { return cmp.Compare(a.Order, b.Order) })
	gone := map[*Event]bool{}
	for _, ev := range some {
		if size <= most/2 {
			break
		}
		if !s.fits(ev) {
			continue
		}
		gone[ev] = true
		size -= ev.size()
		d.Shelf = append(d.Shelf, Shelved{ID: ev.ID, Run: ev.Run, Order: ev.Order, Armed: ev.Armed, Back: ev.Back})
		s.fold.leave(ev)
	}
	d.Events = slices.DeleteFunc(d.Events, func(ev *Event) bool { return gone[ev] })
}

// fits reports that a step may lie on the shelf. While something is unwound, armed steps stay: they are next.
func (s shelf) fits(ev *Event) bool {
	d := s.fold.doc
	return (ev.Armed || tree{s.fold.plan, d}.hears(ev)) && (ev.Verb == Do || ev.Verb == Ask) && !ev.open() && ev.Status != Undoing && !ev.undoing() && !ev.unknown() &&
		ev.StuckParts == nil && len(ev.Was) == 0 && ev.size() <= maxShelf && !(ev.Armed && len(d.Unwinds) > 0)
}

// fetch asks for the steps that are to be undone next, and reports that the unwind waits for them.
func (s shelf) fetch(u Unwind) bool {
	d := s.fold.doc
	var want []int
	for i, x := range d.Shelf {
		if x.Armed && u.holds(x.ID) {
			want = append(want, i)
		}
	}
	slices.SortFunc(want, func(a, b int) int { return cmp.Compare(d.Shelf[b].Order, d.Shelf[a].Order) })
	if len(want) == 0 {
		return false
	}
	if last := (tree{s.fold.plan, d}).lastBefore(u, nil); last != nil && last.Order > d.Shelf[want[0]].Order {
		return false
	}
	if d.Shelf[want[0]].Asked {
		return true
	}
	m := Fetch{Plan: s.fold.plan.Name, ID: s.fold.id}
	for _, i := range want[:min(len(want), maxFetch)] {
		m.Want = append(m.Want, d.Shelf[i])
		d.Shelf[i].Asked = true
	}
	s.fold.touched = true
	s.fold.send(m)
	return true
}

// hear asks for the step of a success that may be a second one.
func (s shelf) hear(m Done) {
	for _, x := range s.fold.doc.Shelf {
		if x.ID == m.Path && x.Run == m.Run {
			s.fold.touched = true
			s.fold.send(Fetch{Plan: s.fold.plan.Name, ID: s.fold.id, Want: []Shelved{x}, Word: &m})
		}
	}
}

// back takes steps off the shelf. It returns the word for which the first one was needed, if that one is back.
func (s shelf) back(m Fetched) *Done {
	d := s.fold.doc
	for _, ev := range m.Steps {
		at := slices.IndexFunc(d.Shelf, func(x Shelved) bool { return x.ID == ev.ID && x.Run == ev.Run && x.Order == ev.Order })
		if at < 0 {
			continue // it is a copy
		}
		ev := ev.clone() // the message may be folded once more
		ev.Back, ev.Armed = d.Shelf[at].Back, d.Shelf[at].Armed
		if d.Shelf = slices.Delete(d.Shelf, at, at+1); len(d.Shelf) == 0 {
			d.Shelf = nil
		}
		d.Trailed--
		s.fold.touched = true
		s.askAgain() // for the others, if they are next
		i := slices.IndexFunc(d.Events, func(x *Event) bool { return x.Created.After(ev.Created) || x.Created.Equal(ev.Created) && x.ID > ev.ID })
		if i < 0 {
			i = len(d.Events)
		}
		d.Events = slices.Insert(d.Events, i, ev)
	}
	if m.Word != nil && d.findRun(m.Word.Path, m.Word.Run) == nil {
		return nil
	}
	return m.Word
}

func (e *Event) clone() *Event {
	c := *e
	c.Undos, c.Failures, c.Twice = slices.Clone(e.Undos), slices.Clone(e.Failures), slices.Clone(e.Twice)
	return &c
}

// askAgain forgets that steps are on their way back.
func (s shelf) askAgain() {
	for i := range s.fold.doc.Shelf {
		if s.fold.doc.Shelf[i].Asked {
			s.fold.doc.Shelf[i].Asked, s.fold.touched = false, true
		}
	}
}
