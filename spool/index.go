package spool

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// An index has what is in the file, in memory.
type index struct {
	mu    sync.Mutex
	next  uint64              // sequence of the next entry
	bytes int64               // of all entries, with those that are being written
	full  bool                // the last entry had no room, and none has gone since
	lanes map[string][]*entry // that wait, the oldest first
	aside []*aside            // what the store has refused
	doubt []*entry            // that may be in the file, although they must not be
	waits atomic.Int64        // messages that wait; changes under mu

	doubtful chan struct{} // of capacity 1: there is something in doubt
}

// An aside is an entry that was set aside.
type aside struct {
	*entry
	why  error
	next time.Time // when it is tried again
}

// reserve takes a sequence and room for an entry.
func (x *index) reserve(e *entry, most int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.full = x.bytes+e.size > most; x.full {
		return false
	}
	x.bytes += e.size
	e.counted = true
	e.seq = x.next
	x.next++
	return true
}

// release gives back the room of an entry that isn't in the file, once, and forgets it. It reports whether that was
// still known.
func (x *index) release(e *entry) bool {
	x.take(e)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !e.counted {
		return false
	}
	e.counted, x.full = false, false
	x.bytes -= e.size
	x.aside = slices.DeleteFunc(x.aside, func(a *aside) bool { return a.entry == e })
	x.doubt = slices.DeleteFunc(x.doubt, func(d *entry) bool { return d == e })
	return true
}

// disown notes that an entry, whose write has failed, must not be in the file. The write may have had its effect all
// the same, so its room stays taken until release.
func (x *index) disown(e *entry, why error) {
	if errors.Is(why, storage.ErrExists) { // there is another entry under its key
		x.release(e)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doubt = append(x.doubt, e); len(x.doubt) == 1 {
		knock(x.doubtful)
	}
}

// inDoubt returns the entries of disown that weren't released.
func (x *index) inDoubt() []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.doubt)
}

// load adds an entry that an earlier run has left in the file.
func (x *index) load(e *entry) {
	e.counted = true
	x.next, x.bytes = e.seq+1, x.bytes+e.size
	x.add(e)
}

// add adds an entry that is in the file.
func (x *index) add(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lanes[e.lane] = append(x.lanes[e.lane], e)
	e.waits = true
	x.waits.Add(e.messages)
}

// oldest returns the time of the oldest entry that waits, or zero.
func (x *index) oldest() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.head(nil, nil); e != nil {
		return e.at
	}
	return time.Time{}
}

// head returns the first entry of the lane with the lowest number outside of some lanes, and among equals the oldest
// one. Without numbers that is the oldest of all. x.mu is held.
func (x *index) head(but map[string]bool, numbers map[string]int) (best *entry) {
	for lane, all := range x.lanes {
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
func (x *index) batch(but map[string]bool, numbers map[string]int, most int, bytes int64) []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := x.head(but, numbers)
	if first == nil {
		return nil
	}
	all := x.lanes[first.lane]
	n := 1
	for size := first.size; n < min(len(all), most); n++ {
		if size += all[n].size; size > bytes {
			break
		}
	}
	return slices.Clone(all[:n])
}

// behind returns an entry that waits not far behind the first one of its lane, or nil.
func (x *index) behind(first *entry) *entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := x.lanes[first.lane]
	if len(all) < 2 || all[0] != first {
		return nil
	}
	return all[1+rand.IntN(min(len(all), batchEntries)-1)]
}

// waiting returns those of some entries that still wait.
func (x *index) waiting(entries []*entry) (left []*entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range entries {
		if e.waits {
			left = append(left, e)
		}
	}
	return left
}

// take takes an entry out of those that wait.
func (x *index) take(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.takeHeld(e)
}

// takeHeld is take while x.mu is held.
func (x *index) takeHeld(e *entry) {
	if !e.waits {
		return
	}
	e.waits = false
	all := x.lanes[e.lane]
	switch i := slices.Index(all, e); {
	case len(all) == 1:
		delete(x.lanes, e.lane)
	case i == 0:
		x.lanes[e.lane] = all[1:] // a long lane isn't moved
	default:
		x.lanes[e.lane] = slices.Delete(all, i, i+1)
	}
	x.waits.Add(-e.messages)
}

// setAside notes a refused entry, which doesn't wait any more. It reports false if that was known.
func (x *index) setAside(e *entry, why error, next time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.takeHeld(e) // under one lock: a message that isn't sent is always counted
	for _, a := range x.aside {
		if a.entry == e {
			a.why = why
			return false
		}
	}
	x.aside = append(x.aside, &aside{e, why, next})
	return true
}

// takeAside returns those set aside that are due, and notes the next time.
func (x *index) takeAside(now, next time.Time) (due []*aside) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.aside {
		if !a.next.After(now) {
			a.next = next
			due = append(due, a)
		}
	}
	return due
}

// dropAside forgets one that was sent after all.
func (x *index) dropAside(a *aside) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.aside = slices.DeleteFunc(x.aside, func(b *aside) bool { return a == b })
}

// count returns the state of the file.
func (x *index) count() (st State) {
	x.mu.Lock()
	defer x.mu.Unlock()
	st.Waiting, st.Bytes, st.full = x.waits.Load(), x.bytes, x.full
	if e := x.head(nil, nil); e != nil {
		st.Oldest = e.at
	}
	for _, a := range x.aside {
		st.Refused += a.messages
		st.Reason = a.why.Error()
	}
	return st
}

// Unsent implements channel.Spool: it is the number of messages that wait for the store, or that were set aside.
func (x *index) Unsent() int64 {
	st := x.count()
	return st.Waiting + st.Refused
}
