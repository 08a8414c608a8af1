package worker

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// trouble is what a consumer remembers of a store that fails while messages are handled. It begins with the first
// failure, and is over when every document that failed has worked again, whatever others do meanwhile.
type trouble struct {
	on atomic.Bool // some place fails

	mu     sync.Mutex
	places map[any]time.Time // documents, and messages that are handled alone, with their last failure
	n      int               // failures since trouble began
	logged bool              // a line said so
	last   time.Time         // of the last line
	swept  time.Time
}

const (
	troubleEvery  = time.Minute     // the shortest time between two lines that say that trouble begins
	troubleForget = 5 * time.Minute // a place that hasn't failed for so long may have worked again in another worker
	troublePlaces = 4096            // bounds the places that are remembered
)

// seldom reports whether the nth repeat is logged: the 8th, and then each time the number has doubled.
func seldom(n int) bool { return n >= 8 && n&(n-1) == 0 }

// failed notes a failure. It returns how many there were since trouble began, and whether to log that.
func (t *trouble) failed(place any, now time.Time) (n int, report bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.places == nil {
		t.places, t.swept = map[any]time.Time{}, now
	}
	if _, known := t.places[place]; known || len(t.places) < troublePlaces {
		t.places[place] = now
	}
	t.on.Store(true)
	t.n++
	report = t.logged && seldom(t.n) || !t.logged && (t.last.IsZero() || now.Sub(t.last) >= troubleEvery)
	if report {
		t.logged, t.last = true, now
	}
	return t.n, report
}

// worked notes a success. It returns whether to log that trouble is over with it, and how many failures there were.
func (t *trouble) worked(now time.Time, places ...any) (n int, report bool) {
	if !t.on.Load() {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, place := range places {
		delete(t.places, place)
	}
	if now.Sub(t.swept) >= troubleForget {
		t.swept = now
		maps.DeleteFunc(t.places, func(_ any, last time.Time) bool { return now.Sub(last) >= troubleForget })
	}
	if len(t.places) > 0 || !t.on.Load() {
		return 0, false
	}
	n, report = t.n, t.logged
	t.on.Store(false)
	t.places, t.n, t.logged = nil, 0, false
	return n, report
}

// place names what fails or works with a message: its document, or the message where no document is known.
func (m *message) place() any {
	if m.delivery != nil {
		if g, ok := m.delivery.Group(); ok {
			return g
		}
	}
	return m.envelope.ID
}
