package storecall

import (
	"math/rand/v2"
	"time"
)

// Doubled returns a first delay doubled n times, and at most the longest delay.
func Doubled(first, longest time.Duration, n int) time.Duration {
	if n >= 63 || first > longest>>n {
		return longest
	}
	return first << n
}

// Spread returns a time from half of d to d, at random. So processes that failed together don't try again together.
func Spread(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Early returns d less up to a fifth, at random. So processes that began together don't poll together.
func Early(d time.Duration) time.Duration { return d - rand.N(d/5+1) }
