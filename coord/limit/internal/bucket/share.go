package bucket

import "time"

// share is the part of a number that this process may use.
type share struct {
	limit int64     // of the whole number, as this process knows it
	use   int64     // by the last write that was acknowledged, or less
	until time.Time // when use ends
	safe  int64     // in force afterwards, while the store is away
}

// force returns what is in force.
func (s share) force(now time.Time) int64 {
	if now.Before(s.until) {
		return s.use
	}
	return s.safe
}
