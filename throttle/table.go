package throttle

import (
	"math/bits"
	"sync"
	"time"
)

// shards is the number of parts of a rate limiter's memory, each under a lock of its own. The upper bits of a tenant's
// hash choose the part, so all that is known of a tenant is under one lock.
const (
	shards    = 64
	shardBits = 6
)

func shardOf(who uint64) uint64 { return who >> (64 - shardBits) }

// A shard is what a rate limiter knows of a part of its tenants.
type shard struct {
	mu      sync.Mutex
	rates   table // of quotas with a time: when the quota is whole again, in nanoseconds since the rate limiter's beginning
	holds   table // of concurrent quotas: requests under way
	repeats repeats
	back    [64]total // see given
	_       [64]byte  // so that two locks never share a cache line
}

// A total is a sum of nanoseconds that never overflows: one body may announce as many as a word can have.
type total struct{ hi, lo uint64 }

func (t *total) add(n int64) {
	var carry uint64
	t.lo, carry = bits.Add64(t.lo, uint64(n), 0)
	t.hi += carry
}

// since returns by how much the total has grown, forever at most.
func (t *total) since(before total) int64 {
	lo, borrow := bits.Sub64(t.lo, before.lo, 0)
	if hi := t.hi - before.hi - borrow; hi > 0 || lo > forever {
		return forever
	}
	return int64(lo)
}

// A table holds a word for each key, in one slice with linear probing. A word that is not above a floor is idle: it
// says the same as no word, so its slot goes to the next newcomer that meets it. Nothing else is ever evicted.
type table struct {
	slots  []slot // a power of two, or none
	used   int    // slots that have a key
	most   int    // bounds used
	turned int    // newcomers that found no slot since the last sweep
	swept  int64  // when that was
}

// A slot is free while its key is 0.
type slot struct {
	key  uint64
	word int64
}

// leastSlots is the size of a table's first slice.
const leastSlots = 16

// find returns the word of a key, or nil. The pointer is good until the next place.
func (t *table) find(key uint64) *int64 {
	if len(t.slots) == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		switch s := &t.slots[i]; s.key {
		case key:
			return &s.word
		case 0:
			return nil
		}
	}
}

// place returns the word of a key, which is 0 for a newcomer. It returns nil when most keys have words above the floor.
// now tells when to look for idle words again. The pointer is good until the next place.
func (t *table) place(key uint64, floor, now int64) *int64 {
	for {
		idle, free := t.probe(key, floor)
		switch {
		case idle != nil:
			if idle.key != key {
				*idle = slot{key: key}
			}
			return &idle.word
		case free != nil && t.used < t.limit():
			t.used++
			free.key = key
			return &free.word
		case t.limit() == t.most && t.turned < t.most/4 && now-t.swept < int64(time.Second):
			t.turned++
			return nil
		}
		t.sweep(floor)
		if t.swept = now; t.used >= t.limit() {
			return nil
		}
	}
}

// probe returns the slot of a key. Without one it returns the first idle slot on the key's way, and the free slot at
// its end.
func (t *table) probe(key uint64, floor int64) (idle, free *slot) {
	if len(t.slots) == 0 {
		return nil, nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		switch {
		case s.key == key:
			return s, nil
		case s.key == 0:
			return idle, s
		case idle == nil && s.word <= floor:
			idle = s
		}
	}
}

// limit bounds used for the present slice: three quarters keep probes short, and leave each probe a free slot as its
// end.
func (t *table) limit() int { return min(len(t.slots)/4*3, t.most) }

// sweep moves the words above the floor into a slice that has room for half as many again, up to most. A sweep looks at
// each slot. A full table is swept once in so many newcomers that each of them pays for a few slots, and else once in a
// second.
func (t *table) sweep(floor int64) {
	live := 0
	for _, s := range t.slots {
		if s.key != 0 && s.word > floor {
			live++
		}
	}
	want := min(live+live/2+1, t.most)
	size := leastSlots
	for size/4*3 < want {
		size *= 2
	}
	old := t.slots
	t.slots, t.used, t.turned = make([]slot, size), live, 0
	mask := uint64(size - 1)
	for _, s := range old {
		if s.key == 0 || s.word <= floor {
			continue
		}
		i := s.key & mask
		for t.slots[i].key != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}

// repeats remembers accepted IDs, in two generations. When the young one is full, it becomes the old one, and the old
// one is forgotten.
type repeats struct {
	young, old map[uint64]uint8 // how often the ID has come again
	most       int              // of a generation
}

// freeRepeats is how many repeats of an accepted ID cost no quota. A client that sends more often is a loop.
const freeRepeats = 10

// accept remembers an ID.
func (r *repeats) accept(id uint64) {
	if n, ok := r.young[id]; ok {
		r.young[id] = n
		return
	}
	r.set(id, r.old[id])
}

func (r *repeats) set(id uint64, n uint8) {
	if _, ok := r.young[id]; !ok && len(r.young) >= r.most || r.young == nil {
		r.old, r.young = r.young, make(map[uint64]uint8, min(r.most, 16))
	}
	r.young[id] = n
}

// repeat counts a repeat. It reports whether the ID was accepted before, and whether this repeat is free.
func (r *repeats) repeat(id uint64) (known, free bool) {
	n, known := r.young[id]
	if !known {
		n, known = r.old[id]
	}
	if !known || n >= freeRepeats {
		return known, false
	}
	r.set(id, n+1)
	return true, true
}
