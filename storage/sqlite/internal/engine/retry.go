package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// lockWait is how long another process may lock the file before a call gives up.
const lockWait = 10 * time.Second

// Retry repeats try while another connection is in the way, for 10 seconds at most or until ctx ends.
func Retry(ctx context.Context, try func() error) error {
	return retry(func() error { return context.Cause(ctx) }, try)
}

// retry repeats try while another connection is in the way. SQLite's own waiting begins at a millisecond and grows.
// That starves this process beside one that takes the lock again at once. A short pause of random length is fair to
// both. retry gives up after lockWait, or when gone returns an error.
func retry(gone func() error, try func() error) error {
	var begin time.Time
	for {
		err := try()
		if err == nil || !busy(err) {
			return err
		}
		if begin.IsZero() {
			begin = time.Now()
		}
		if waited := time.Since(begin); waited > lockWait {
			return fmt.Errorf("%w (for %v)", err, waited.Round(time.Second))
		}
		if err := gone(); err != nil {
			return err
		}
		time.Sleep(50*time.Microsecond + rand.N(200*time.Microsecond))
	}
}
