package worker

import (
	"hash/fnv"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
)

const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// RetryDelay is the default delay before the next attempt: 1 second, doubled with each failed attempt up to 5 minutes,
// and spread by up to a fifth either way. The spread follows from the message's ID: messages that failed together don't
// come back together, and the same arguments always give the same delay.
func RetryDelay(failed int, id string) time.Duration {
	d := storecall.Doubled(retryFirst, retryMost, max(failed-1, 0))
	h := fnv.New64a()
	h.Write([]byte(id))
	h.Write([]byte{byte(failed)})
	spread := float64(h.Sum64()%1000)/1000*0.4 - 0.2
	return d + time.Duration(spread*float64(d))
}

// waitFirst is the first delay of a message that waits for its turn. It doubles with each hand-back.
const waitFirst = 250 * time.Millisecond

// waitDelay is the delay of a message that waits for its turn, at most the given one.
func waitDelay(most time.Duration, handBacks int) time.Duration {
	return storecall.Doubled(waitFirst, most, max(handBacks, 0))
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
