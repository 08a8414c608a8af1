package breaker

import "time"

// LeastWindow is the shortest Break.Window.
const LeastWindow = windowBuckets * time.Millisecond

const (
	windowBuckets = 10
	repeatPart    = 10 // of so many calls one may be repeated in place
	leastRepeats  = 3  // but so many always may
)

// window counts the calls of the last while, and which messages failed in it. The oldest tenth is forgotten at once.
// Its callers hold a mutex.
type window struct {
	start   time.Time     // of the first call
	width   time.Duration // of a bucket
	at      int64         // the number of the newest bucket since start
	buckets [windowBuckets]counts
	sum     counts    // of all buckets
	row     int       // failures since the last success
	rowAt   time.Time // of the first of them

	failing []sighting // the messages that failed last, each once; as many as must fail
}

type counts struct{ calls, failures, repeats int }

// sighting is when a message was seen last. An empty ID is that of a call outside of a handler, equal to no other.
type sighting struct {
	id string
	at time.Time
}

func newWindow(b Break) window {
	return window{width: b.Window / windowBuckets, failing: make([]sighting, 0, b.Distinct)}
}

// bucket returns the bucket of a time, which is not before any earlier one.
func (w *window) bucket(now time.Time) *counts {
	if w.start.IsZero() {
		w.start = now
	}
	n := max(int64(now.Sub(w.start)/w.width), w.at)
	if n-w.at >= windowBuckets {
		w.buckets, w.sum, w.at = [windowBuckets]counts{}, counts{}, n
	}
	for w.at < n {
		w.at++
		old := &w.buckets[w.at%windowBuckets]
		w.sum.calls -= old.calls
		w.sum.failures -= old.failures
		w.sum.repeats -= old.repeats
		*old = counts{}
	}
	return &w.buckets[w.at%windowBuckets]
}

// add counts a call.
func (w *window) add(id string, failed bool, now time.Time) {
	b := w.bucket(now)
	b.calls++
	w.sum.calls++
	if !failed {
		w.row = 0
		return
	}
	if w.row == 0 {
		w.rowAt = now
	}
	w.row++
	b.failures++
	w.sum.failures++
	w.failing = see(w.failing, id, now)
}

// repeat counts a call that is repeated in place, unless too many are.
func (w *window) repeat(now time.Time) bool {
	b := w.bucket(now)
	if w.sum.repeats >= max(leastRepeats, w.sum.calls/repeatPart) {
		return false
	}
	b.repeats++
	w.sum.repeats++
	return true
}

// tripped reports that the breaker must open. Where there are many calls, a row of failures tells sooner than the share
// of them that the service is away. Where calls are slow or rare, it tells alone: then its messages count, however long
// ago they failed.
func (w *window) tripped(b Break, now time.Time) bool {
	many := w.sum.calls >= b.Of && float64(w.sum.failures) >= b.Rate*float64(w.sum.calls)
	if !many && w.row < b.Of || len(w.failing) < b.Distinct {
		return false
	}
	for _, s := range w.failing {
		if now.Sub(s.at) > b.Window && (w.row < b.Of || s.at.Before(w.rowAt)) {
			return false
		}
	}
	return true
}

// halfway reports that half as many calls have failed as open the breaker, in the window or in a row.
func (w *window) halfway(b Break) bool {
	half := max(1, b.Of/2)
	return w.row == half || w.sum.failures == half
}

// spreads reports that calls seem to fail for more than one message: the last ones did, within the window.
func (w *window) spreads(b Break, now time.Time) bool {
	messages := 0
	for _, s := range w.failing {
		if w.row > 0 && !s.at.Before(w.rowAt) && now.Sub(s.at) <= b.Window {
			messages++
		}
	}
	return messages > 1
}

// see notes a message in a list that keeps those seen last, as many as it has room for.
func see(list []sighting, id string, now time.Time) []sighting {
	oldest := 0
	for i, s := range list {
		if s.id == id && id != "" {
			list[i].at = now
			return list
		}
		if s.at.Before(list[oldest].at) {
			oldest = i
		}
	}
	if len(list) < cap(list) {
		return append(list, sighting{id, now})
	}
	list[oldest] = sighting{id, now}
	return list
}
