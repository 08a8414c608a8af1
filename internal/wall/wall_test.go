package wall_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/wall"
)

// A clock that is set is noticed: forward or back, in the first minutes and hours later, and again until somebody could
// do something about it. One that goes right, or is wrong by little, is not.
func TestAClockThatIsSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var wrong atomic.Int64
		var got []time.Duration
		fails := 0
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			wall.Watch(ctx, func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }, func(by time.Duration) error {
				got = append(got, by)
				if fails--; fails >= 0 {
					return errors.New("the store is away")
				}
				return nil
			})
		}()
		step := func(by, within time.Duration, want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			got = nil
			wrong.Add(int64(by))
			pass(within)
			synctest.Wait()
			if !slices.Equal(got, want) {
				t.Errorf("set by %v: noticed %v within %v, want %v", by, got, within, want)
			}
		}
		step(0, time.Minute)
		step(time.Hour, 6*time.Second, time.Hour)
		step(-time.Hour, 6*time.Second, -time.Hour)
		step(time.Second, time.Minute)
		step(time.Second, 6*time.Second, 2*time.Second) // slewed
		step(0, 24*time.Hour)
		step(-30*24*time.Hour, 61*time.Second, -30*24*time.Hour)
		fails = 2
		step(time.Hour, 5*time.Minute, time.Hour, time.Hour, time.Hour)
		cancel()
		<-ended
	})
}

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }
