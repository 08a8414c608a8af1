package agreetest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// EndsByTheClock begins many rights at one moment, cuts them off from what renews them, and looks at the moment when
// their proofs end. The timers are due at the same moment, and most of them come later than this look, as in a process
// that stood still. lasts is the time from the beginning of a right to its end. The contexts that begin returns must
// have ended, with the cause want.
func EndsByTheClock(t *testing.T, lasts time.Duration, want error, begin func(i int) context.Context, cut func()) {
	t.Helper()
	began := time.Now()
	all := make([]context.Context, 50)
	for i := range all {
		all[i] = begin(i)
	}
	if late := time.Since(began); late != 0 {
		t.Fatalf("the rights began within %v, want one moment", late)
	}
	cut()
	time.Sleep(lasts - 1)
	for i, ctx := range all {
		if err := ctx.Err(); err != nil {
			t.Fatalf("right %d has ended before its end: %v", i, context.Cause(ctx))
		}
	}
	time.Sleep(time.Nanosecond)
	alive := 0
	for _, ctx := range all {
		if ctx.Err() == nil {
			alive++
		}
	}
	if alive > 0 {
		t.Errorf("%d of %d rights look alive at the end of their proof", alive, len(all))
	}
	for i, ctx := range all {
		if got := fmt.Sprint(context.Cause(ctx)); want != nil && got != want.Error() {
			t.Fatalf("right %d ended with %q, want %q", i, got, want)
		}
	}
}
