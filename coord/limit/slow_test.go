package limit_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/storage"
)

// Processes with a backlog use all of a slow rate, whose permits are so far apart that a caller that waits for one does
// nothing else for a while. There are no more calls than the rate allows.
func TestLaw3ASlowRateIsUsed(t *testing.T) {
	waiting := func(r *limit.Rate, d time.Duration) (n int) {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		for r.Wait(ctx) == nil {
			n++
		}
		return n
	}
	for how, work := range map[string]func(*limit.Rate, time.Duration) int{"Take": busy, "Wait": waiting} {
		for processes, rate := range map[int]float64{2: limit.LeastRate, 8: 1} {
			t.Run(fmt.Sprint(how, " ", processes), func(t *testing.T) {
				inWorld(t, func(t *testing.T, s *storage.Store) {
					const long = 10 * time.Minute
					var calls atomic.Int64
					var all sync.WaitGroup
					for range processes {
						r := newRate(t, s, rate, limit.Config{})
						all.Go(func() { calls.Add(int64(work(r, long))) })
					}
					all.Wait()
					n, most := int(calls.Load()), int(rate*long.Seconds())
					if n < most*9/10 || n > most+processes {
						t.Errorf("%d calls, want %d", n, most)
					}
					time.Sleep(30 * ttl)
				})
			})
		}
	}
}
