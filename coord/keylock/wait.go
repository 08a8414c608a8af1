package keylock

import (
	"slices"
	"time"
)

// A Waiter is a message that waits for its turn.
type Waiter struct {
	Message    string // its ID
	Deliveries int    // how often the store has delivered it: two messages may have one ID
}

// A Wait is what a process has seen of a key that waits for the same. One message that waits, the witness, counts for
// how long others were there and the first one was not; see law 8. Times are elapsed ones of this process.
type Wait struct {
	since   time.Time // zero: the process has not seen it
	witness Waiter
	refused time.Time // when the witness was refused the last time
	counted time.Duration
	emptied time.Time // up to then, nothing was ready that had been sent before; zero: nobody knows
}

const (
	clocksDiffer = time.Minute    // the store's and this process's
	lanesMost    = 24 * time.Hour // the longest wait for lanes
)

// Seen is for how long this process has seen that the key waits.
func (w *Wait) Seen() time.Duration {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since)
}

// Count returns for how long what should come first has not come, although it was due. The messages that are here are
// refused now, or others go past it. A round of the witness counts for most at most.
func (w *Wait) Count(s *State, most time.Duration, here ...Waiter) time.Duration {
	late := w.Seen()
	if s.First != nil {
		late -= s.First.After
	}
	if late < 0 || len(here) == 0 {
		return w.counted
	}
	i := slices.IndexFunc(here, w.again)
	switch {
	case i >= 0:
		w.counted += min(time.Since(w.refused), most)
	case w.refused.IsZero() || time.Since(w.refused) >= max(3*most, late/2): // the witness is gone, or others get it
		i = 0
	default:
		return w.counted
	}
	w.witness, w.refused = here[i], time.Now()
	return w.counted
}

// Emptied notes how old the oldest message is that is ready in any lane of the queue, -1 for unknown. It reports that
// what should come first is in none of them. It is for a queue with lanes, where a round of the witness tells of one
// lane only; see law 8.
func (w *Wait) Emptied(s *State, oldest time.Duration) bool {
	since := w.since
	if s.First != nil {
		since = since.Add(s.First.After)
	}
	if time.Since(since) > lanesMost {
		return true
	}
	known := w.emptied
	if known.IsZero() {
		known = since
	}
	if oldest < 0 || time.Since(known) <= oldest+clocksDiffer {
		return false
	}
	twice := !w.emptied.IsZero()
	if !twice {
		w.emptied = time.Now()
	}
	return twice
}

// again reports that a message is the witness, and has been in the queue since it was refused.
func (w *Wait) again(m Waiter) bool {
	return !w.refused.IsZero() && m.Message == w.witness.Message && m.Deliveries > w.witness.Deliveries
}
