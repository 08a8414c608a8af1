package right_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/right"
)

var errLate = errors.New("late")

type key struct{}

// timed returns a right whose proof ends after d. Its timer never fires: it is moved into the far future, as the timer
// of a process that stood still hasn't fired yet.
func timed(ctx context.Context, d time.Duration) *right.Right {
	return right.Watched(ctx, time.Now().Add(d), end)
}

func end(r *right.Right) { r.End(errLate) }

func TestEachLookComparesTheClockWithTheProof(t *testing.T) {
	t.Parallel()
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	looks := map[string]func(ctx context.Context) bool{
		"Err":   func(ctx context.Context) bool { return ctx.Err() != nil },
		"Done":  func(ctx context.Context) bool { return closed(ctx.Done()) },
		"Cause": func(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errLate) },
		"Ended": right.Ended,
	}
	derived := map[string]func(ctx context.Context) context.Context{
		"itself":             func(ctx context.Context) context.Context { return ctx },
		"WithValue":          func(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, 1) },
		"Within":             func(ctx context.Context) context.Context { return right.Within(ctx) },
		"Within others":      func(ctx context.Context) context.Context { return right.Within(context.Background(), ctx) },
		"a right of its own": func(ctx context.Context) context.Context { return timed(ctx, time.Hour) },
		"a right over a cancelled context": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			context.AfterFunc(ctx, cancel)
			return timed(ctx, time.Hour)
		},
	}
	for how, derive := range derived {
		for by, look := range looks {
			t.Run(how+" by "+by, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := timed(t.Context(), time.Second)
					ctx := derive(r)
					time.Sleep(time.Second - 1)
					if look(ctx) {
						t.Error("it has ended before its end")
					}
					time.Sleep(time.Nanosecond)
					if !look(ctx) {
						t.Error("it has not ended at its end")
					}
					if err := context.Cause(ctx); !errors.Is(err, errLate) {
						t.Errorf("the cause is %v, want %v", err, errLate)
					}
				})
			})
		}
	}
}

func TestALookBelowATimeoutEndsTheTimeoutsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(timed(t.Context(), time.Second), time.Hour)
		defer cancel()
		time.Sleep(time.Second)
		if !right.Ended(ctx) || !errors.Is(context.Cause(ctx), errLate) {
			t.Errorf("ended: %v, cause %v; want %v", ctx.Err(), context.Cause(ctx), errLate)
		}
	})
}

func TestTheTimerEndsARightForThoseThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := right.New(t.Context(), begin.Add(time.Second), end)
		done := r.Done()
		time.Sleep(time.Second / 2)
		if !r.Prove(begin.Add(2 * time.Second)) {
			t.Error("a proof in time is refused")
		}
		<-done
		if d := time.Since(begin); d != 2*time.Second {
			t.Errorf("it ended after %v, want 2s", d)
		}
	})
}

func TestALateProofBringsNoRightBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := timed(t.Context(), time.Second)
		time.Sleep(time.Second)
		if r.Prove(time.Now().Add(time.Hour)) || r.Proved() || r.Err() == nil {
			t.Errorf("the right is back: proved %v, %v", r.Proved(), r.Err())
		}
	})
}

// A look at contexts that are made of one another costs a look at each of them: with two looks at each, this test would
// not end.
func TestALookIsOneLookAtEach(t *testing.T) {
	t.Parallel()
	ctx := context.Context(timed(t.Context(), time.Hour))
	for range 60 {
		next, cancel := right.WithTimeoutCause(ctx, time.Hour, errLate)
		defer cancel()
		ctx = next
	}
	if ctx.Err() != nil || right.Ended(ctx) || context.Cause(ctx) != nil || ctx.Value(key{}) != nil {
		t.Error("it has ended")
	}
}

func TestOneEndIsTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		firsts := make(chan bool, 100)
		r := right.New(t.Context(), time.Now().Add(time.Second), func(r *right.Right) { firsts <- r.End(errLate) })
		time.Sleep(time.Second)
		var looks sync.WaitGroup
		for range 50 {
			looks.Go(func() {
				if r.Err() == nil {
					t.Error("it has not ended")
				}
			})
		}
		looks.Wait()
		synctest.Wait()
		close(firsts)
		n := 0
		for first := range firsts {
			if first {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d ends were the first", n)
		}
	})
}
