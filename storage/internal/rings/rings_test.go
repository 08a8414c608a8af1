package rings

import (
	"testing"
	"testing/synctest"
	"time"
)

// A ring for a delayed message doesn't rest on one timer for hours.
func TestRingsInBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New()
		defer w.Close()
		ring, stop := w.Add("queue")
		defer stop()
		<-ring // at the beginning
		begin := time.Now()
		w.At("queue", begin.Add(time.Hour))
		<-ring
		if got := time.Since(begin); got != Anyway {
			t.Errorf("rung after %v, want %v", got, Anyway)
		}
		w.At("queue", begin.Add(Anyway+time.Second)) // a consumer's look sets it again
		<-ring
		if got, want := time.Since(begin), Anyway+time.Second; got != want {
			t.Errorf("rung after %v, want %v", got, want)
		}
	})
}
