package flow

import (
	"math"
	"time"
)

// earliest returns the earlier one of two deadlines. Zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// before reports that a time is before an end; zero is none.
func before(t, end time.Time) bool { return end.IsZero() || t.Before(end) }

// maxHop is how far ahead an alarm is sent. One that comes too early sends the next.
const maxHop = 365 * 24 * time.Hour

// reach returns a time, or one as far ahead of now as an alarm is sent.
func reach(now, x time.Time) time.Time {
	if latest := now.Add(maxHop); x.After(latest) {
		return latest
	}
	return x
}

// plus and times are for durations that a program has chosen: what is too long becomes the longest.
func plus(a, b time.Duration) time.Duration {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

func times(n, d time.Duration) time.Duration {
	if d > math.MaxInt64/n {
		return math.MaxInt64
	}
	return n * d
}
