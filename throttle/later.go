package throttle

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// dueEvery is how exactly a rate limiter knows when deferred work is due.
const dueEvery = int64(100 * time.Millisecond)

// later is what a rate limiter has deferred.
type later struct {
	// These are written under mu.
	next     atomic.Int64 // when some is due next
	deferred atomic.Int64 // the sum of dues
	clear    atomic.Int64 // when all will have been served, as far as it can be told
	latest   atomic.Int64 // the latest time at which work is due that the backlog has deferred

	mu   sync.Mutex
	dues []due // by their times; under mu
}

// A due is messages that are due at a time.
type due struct{ at, n int64 }

// state returns how many messages are not due yet, and when they will have been served.
func (l *later) state() (deferred, clear int64) {
	return l.deferred.Load(), l.clear.Load()
}

// reserve notes that a message is due at a time and is served within another one, and that it puts off those after it,
// up to a time at most. It returns by how much.
func (l *later) reserve(at, within, ahead, most int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear := max(l.clear.Load(), at+within)
	ahead = max(0, min(ahead, most-clear))
	l.clear.Store(clear + ahead)
	l.latest.Store(max(l.latest.Load(), at))
	return ahead
}

// add notes that a message was sent that is due at a time.
func (l *later) add(at int64) {
	at = (at/dueEvery + 1) * dueEvery
	l.mu.Lock()
	defer l.mu.Unlock()
	i, there := slices.BinarySearchFunc(l.dues, at, func(d due, at int64) int { return cmp.Compare(d.at, at) })
	if !there {
		l.dues = slices.Insert(l.dues, i, due{at: at})
	}
	l.dues[i].n++
	l.deferred.Add(1)
	l.next.Store(l.dues[0].at)
}

// giveBack takes back by how much a message has put off those after it.
func (l *later) giveBack(ahead int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear.Add(-ahead)
}

// ripen adds to sent how many messages are due since the last call, before they are no longer deferred.
func (l *later) ripen(now int64, sent *atomic.Int64) {
	if now < l.next.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i, n := 0, int64(0)
	for ; i < len(l.dues) && l.dues[i].at <= now; i++ {
		n += l.dues[i].n
	}
	l.dues = slices.Delete(l.dues, 0, i)
	sent.Add(n)
	l.deferred.Add(-n)
	l.next.Store(forever)
	if len(l.dues) > 0 {
		l.next.Store(l.dues[0].at)
	}
}

// follow returns for how long the work of a repeat waits, so that it isn't due before that of the request before it.
func (l *later) follow(now int64) int64 {
	return max(l.latest.Load()-now, 0)
}
