// Package wall notices that the wall clock of this machine was set.
//
// A time that lies ahead is waited for by elapsed time. How long that is, the wall clock has told. If the clock was
// wrong then, the wait is as wrong. So whoever waits looks again once the clock was set. A clock that went on while the
// machine slept was set, too: elapsed time stood still.
package wall

import (
	"context"
	"time"
)

const (
	often    = 5 * time.Second  // between two looks, in the first time
	first    = 10 * time.Minute // most clocks are set soon after a machine's start
	seldom   = time.Minute      // between two looks, later
	leastSet = 2 * time.Second  // less is no news: clocks are also slewed, and a goroutine may stand still between two readings
)

// Watch calls set when the wall clock was set since Watch began or since set returned nil the last time, and says by
// how much. After an error it calls set again at the next look. It returns when ctx ends. now reads the wall clock:
// time.Now, but in tests.
func Watch(ctx context.Context, now func() time.Time, set func(by time.Duration) error) {
	start := time.Now()
	apart := func() time.Duration { return now().Round(0).Sub(start.Round(0)) - time.Since(start) }
	was, pause := apart(), often
	look := time.NewTimer(pause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		is := apart()
		switch by := is - was; {
		case by.Abs() < leastSet:
		case set(by) == nil:
			was = is
		}
		if time.Since(start) > first {
			pause = seldom
		}
		look.Reset(pause)
	}
}
