package worker

import (
	"context"
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
// while held messages don't wait long. So large batches feed fast handlers. Where handlers become slow, what waits is
// handed back after a minute; see unstarted. So no message that another worker could run waits here for longer.
type room struct {
	short, long time.Duration
	longest     atomic.Int64  // longest wait of a message since the last decision, a time.Duration
	freed       chan struct{} // has an element when free may return more than 0 again

	mu          sync.Mutex
	least, most int
	limit       int
	held        int
	reserve     int                // places for urgent messages alone
	lower       int                // held messages that aren't urgent; 0 without a reserve
	onLower     context.CancelFunc // is called when there is a place for one of these; nil: nobody waits for it
	ended       int                // messages that have ended since the last decision
	full        bool               // the last receive brought as many messages as it asked for
	wanted      int                // free places that are waited for; 0: nobody waits
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

// take notes that n messages came, of which some aren't urgent; full says that there may be more.
func (r *room) take(n, lower int, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += n
	r.lower += lower
	r.full = full
}

// waited notes how long a message has waited for its handler.
func (r *room) waited(d time.Duration) {
	for old := r.longest.Load(); int64(d) > old && !r.longest.CompareAndSwap(old, int64(d)); old = r.longest.Load() {
	}
}

// shrink lets the consumer hold no more than can run at once: what waited for long is handed back.
func (r *room) shrink() {
	r.waited(2 * r.long) // nor more at the next decision
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = r.least
	r.wanted = min(r.wanted, r.enough())
}

// leave notes that a message has ended; lower says that it wasn't urgent.
func (r *room) leave(lower bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held--
	r.ended++
	if lower {
		r.lower--
	}
	r.wakeLower()
	if r.wanted > 0 && (r.limit-r.held >= r.wanted || r.urgent() > 0) {
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
	n := r.urgent()
	if all := r.limit - r.held; all >= r.enough() {
		n = max(n, all)
	}
	if n == 0 {
		r.wanted = r.enough()
	}
	return n
}

// enough is how many free places are worth a request: with room to spare beyond what runs at once, wait for a batch.
func (r *room) enough() int { return max(1, (r.limit-r.least)/2) }

// urgent returns how many urgent messages may be received, however many others are held.
func (r *room) urgent() int { return max(0, kept(r.reserve, r.least)-(r.held-r.lower)) }

// freeLower returns how many messages that aren't urgent may be received. Others have the places of the reserve.
func (r *room) freeLower() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lowerPlaces()
}

func (r *room) lowerPlaces() int {
	if n := r.limit - kept(r.reserve, r.least) - r.lower; n >= r.enough() {
		return n
	}
	return 0
}

// whenLower calls wake, once, when messages that aren't urgent may be received.
func (r *room) whenLower(wake context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onLower = wake
	r.wakeLower()
}

func (r *room) wakeLower() {
	if r.onLower != nil && r.lowerPlaces() > 0 {
		r.onLower()
		r.onLower = nil
	}
}
