package worker

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	waitShort = 100 * time.Millisecond // when messages wait less, hold more
	waitLong  = 500 * time.Millisecond // when messages wait longer, hold fewer
	dearer    = 10                     // factor on both where requests are billed, so that each receive brings more
	fairer    = 20                     // divisor of both where a queue has lanes: what is in hand has no turns any more
)

// room decides how many messages a consumer may hold. It begins with as many as can run at once. It doubles the number
// while held messages don't wait long. So large batches feed fast handlers, and slow handlers hold no message that
// another worker could run.
type room struct {
	short, long time.Duration
	longest     atomic.Int64  // longest wait of a message since the last decision, a time.Duration
	freed       chan struct{} // has an element when free may return more than 0 again

	mu          sync.Mutex
	least, most int
	limit       int
	held        int
	ended       int  // messages that have ended since the last decision
	full        bool // the last receive brought as many messages as it asked for
	wanted      int  // free places that are waited for; 0: nobody waits
}

func newRoom(least, most int, billed bool) *room {
	r := &room{short: waitShort, long: waitLong, freed: make(chan struct{}, 1), least: least, most: most, limit: least}
	if billed {
		r.short, r.long = dearer*waitShort, dearer*waitLong
	}
	return r
}

// hurry lets messages wait for less long: in a queue with lanes one that comes now waits for all that are held.
func (r *room) hurry() { r.short, r.long = r.short/fairer, r.long/fairer }

// setLimits changes the bounds of the number: how many can run at once, and how many may be held at most.
func (r *room) setLimits(least, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.least, r.most = least, most
	r.limit = min(max(r.limit, least), most)
}

// take notes that n messages came; full says that there may be more.
func (r *room) take(n int, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += n
	r.full = full
}

// waited notes how long a message has waited for its handler.
func (r *room) waited(d time.Duration) {
	for old := r.longest.Load(); int64(d) > old && !r.longest.CompareAndSwap(old, int64(d)); old = r.longest.Load() {
	}
}

// leave notes that a message has ended.
func (r *room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held--
	r.ended++
	if r.wanted > 0 && r.limit-r.held >= r.wanted {
		r.wanted = 0
		select {
		case r.freed <- struct{}{}:
		default:
		}
	}
}

// free returns how many messages to receive now; after 0 the caller must wait for freed.
func (r *room) free() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	longest, decided := time.Duration(r.longest.Load()), true
	switch {
	case longest > r.long:
		r.limit = max(r.least, r.limit/2)
	case r.full && longest < r.short && r.ended >= r.limit/2:
		r.limit = min(2*r.limit, r.most)
	default:
		decided = r.ended >= 2*r.limit // the handler that held up a message may have ended
	}
	if decided {
		r.longest.CompareAndSwap(int64(longest), 0)
		r.ended = 0
	}
	// With room to spare beyond what runs at once, wait for a batch that is worth a request.
	enough := max(1, (r.limit-r.least)/2)
	if n := r.limit - r.held; n >= enough {
		return n
	}
	r.wanted = enough
	return 0
}
