package child

import (
	"sync"
	"time"
)

// A mark is the number of handled jobs at a time.
type mark struct {
	n  int64
	at time.Time
}

// A tally counts each job once, even when it is delivered twice.
type tally struct {
	mu    sync.Mutex
	seen  []uint64 // a bit for each job
	n     int64
	twice int64
	marks map[int64]chan mark
}

// first counts job n, and reports whether it is new.
func (t *tally) first(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	word, bit := n/64, uint64(1)<<(n%64)
	for word >= len(t.seen) {
		t.seen = append(t.seen, make([]uint64, 1024)...)
	}
	if t.seen[word]&bit != 0 {
		t.twice++
		return false
	}
	t.seen[word] |= bit
	t.n++
	if c := t.marks[t.n]; c != nil {
		c <- mark{t.n, time.Now()}
	}
	return true
}

// after returns a channel that gets a mark when n jobs have been counted, at once for n = 0. Call it before the first
// job is counted.
func (t *tally) after(n int64) <-chan mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := make(chan mark, 1)
	if n == 0 {
		c <- mark{0, time.Now()}
		return c
	}
	if t.marks == nil {
		t.marks = map[int64]chan mark{}
	}
	t.marks[n] = c
	return c
}

func (t *tally) now() mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return mark{t.n, time.Now()}
}

func (t *tally) repeats() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.twice
}
