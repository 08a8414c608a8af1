package wire

import (
	"sync/atomic"
	"time"
)

// A SendersClock tells the present by which old rows are deleted: this machine's, but never later than the newest
// message that was handled here. So a clock that is ahead on this machine alone, for a moment or for good, deletes
// nothing that others rely on.
type SendersClock struct{ newest atomic.Int64 }

// Saw notes from when a message counts. The zero time is that of a message from elsewhere.
func (c *SendersClock) Saw(born time.Time) {
	if born.IsZero() {
		born = time.Now()
	}
	for ms := born.UnixMilli(); ; {
		if was := c.newest.Load(); was >= ms || c.newest.CompareAndSwap(was, ms) {
			return
		}
	}
}

// Now is the present by this clock.
func (c *SendersClock) Now() time.Time {
	now, newest := time.Now(), time.UnixMilli(c.newest.Load())
	if newest.Before(now) {
		return newest
	}
	return now
}
