package lanes

import (
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// hand is what was received and has not ended.
type hand struct {
	entries map[driver.Receipt]entry
	swept   time.Time
}

// An entry is a message in hand.
type entry struct {
	lane  *lane
	since time.Time
	until time.Time // the end of its visibility
}

// end takes a message out, and returns its lane and for how many seconds the message was in hand.
func (h *hand) end(r driver.Receipt, now time.Time) (l *lane, took float64, ok bool) {
	e, ok := h.entries[r]
	if !ok {
		return nil, 0, false
	}
	delete(h.entries, r)
	return e.lane, min(max(leastTime, now.Sub(e.since).Seconds()), mostDebt), true
}

// extended notes the new receipt of a message.
func (h *hand) extended(old, next driver.Receipt, until time.Time) {
	e, ok := h.entries[old]
	if !ok {
		return
	}
	delete(h.entries, old)
	e.until = until
	h.entries[next] = e
}

// expired returns the messages whose visibility is over. It looks once a second.
func (h *hand) expired(now time.Time) (all []driver.Receipt) {
	if now.Sub(h.swept) < time.Second {
		return nil
	}
	h.swept = now
	for r, e := range h.entries {
		if e.until.Before(now) {
			all = append(all, r)
		}
	}
	return all
}
