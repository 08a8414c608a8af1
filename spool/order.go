package spool

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

const (
	batchEntries = 32
	batchBytes   = 4 << 20
)

// An order has the entries that wait, by lane. A lane has the entries for the same queues, the oldest first. The index
// guards the order.
type order map[string][]*entry

// add adds an entry behind the others of its lane.
func (o order) add(e *entry) {
	o[e.lane] = append(o[e.lane], e)
	e.waits = true
}

// take takes an entry out, and reports whether it was there.
func (o order) take(e *entry) bool {
	if !e.waits {
		return false
	}
	e.waits = false
	all := o[e.lane]
	switch i := slices.Index(all, e); {
	case len(all) == 1:
		delete(o, e.lane)
	case i == 0:
		o[e.lane] = all[1:] // a long lane isn't moved
	default:
		o[e.lane] = slices.Delete(all, i, i+1)
	}
	return true
}

// head returns the first entry of the lane with the lowest number, and among equals the oldest entry. The lanes in but
// don't count. Without numbers head returns the oldest of all entries.
func (o order) head(but map[string]bool, numbers map[string]int) (best *entry) {
	for lane, all := range o {
		if len(all) == 0 || but[lane] {
			continue
		}
		if e := all[0]; best == nil || cmp.Or(cmp.Compare(numbers[lane], numbers[best.lane]), cmp.Compare(e.seq, best.seq)) < 0 {
			best = e
		}
	}
	return best
}

// batch returns the first entries of the lane that head chooses.
func (o order) batch(but map[string]bool, numbers map[string]int) []*entry {
	first := o.head(but, numbers)
	if first == nil {
		return nil
	}
	all := o[first.lane]
	n := 1
	for size := first.size; n < min(len(all), batchEntries); n++ {
		if size += all[n].size; size > batchBytes {
			break
		}
	}
	return slices.Clone(all[:n])
}

// behind returns an entry that waits not far behind the first one of its lane, or nil.
func (o order) behind(first *entry) *entry {
	all := o[first.lane]
	if len(all) < 2 || all[0] != first {
		return nil
	}
	return all[1+rand.IntN(min(len(all), batchEntries)-1)]
}
