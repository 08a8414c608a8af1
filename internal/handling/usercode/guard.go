package usercode

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/handling/verdict"
)

// guardLimit is how long a call under [Guard] may take. It is given up verdict.GiveUpAfter later.
const guardLimit = 10 * time.Second

// Guard calls f(0) to f(n-1), one after the other, on a goroutine that may be lost, and use with each result. f calls
// the user's code that is named by what; use doesn't. Both run on that goroutine. Where f ends the goroutine, by a
// panic or by runtime.Goexit, Guard calls failed with an error that says so, and goes on with the next call on another
// goroutine.
//
// A call of f that hangs is given up after 20 to 30 seconds: failed gets a [verdict.HangError], and whatever f returns
// later is not used. So the user's code must be the last thing in f, and f must change nothing after it. The calls that
// would follow are not made, because they might take as long: failed gets a [verdict.LaterError] for each.
func Guard[T any](what string, n int, f func(i int) T, use func(i int, result T), failed func(i int, err error)) {
	for next := 0; next < n; next++ {
		from := next
		r := Start(func(r *Run) {
			for i := from; i < n; i++ {
				call := r.begin(i)
				result := f(i)
				r.end(call)
				use(i, result)
			}
		})
		at, hung := r.Watch(context.Background(), guardLimit+verdict.GiveUpAfter)
		if hung {
			failed(at, r.Hang(what, guardLimit, AllStacks()))
			for i := at + 1; i < n; i++ {
				failed(i, ErrBehindHang())
			}
			return
		}
		if r.returned {
			return
		}
		next = int(r.at.Load())
		failed(next, r.fault)
	}
}

// Contain calls f, which calls the user's code, on a goroutine that may be lost, and waits for as long as f takes. It
// returns the error of f, whose methods don't panic, or a [verdict.PanicError] if f ends that goroutine, by a panic or
// by runtime.Goexit.
func Contain(f func() error) (err error) {
	r := Start(func(*Run) { err = contain.Sound(f()) })
	if <-r.ended; !r.returned {
		return r.fault
	}
	return err
}

// ErrBehindHang is the error of calls that were not made, so that they don't wait through another hang.
func ErrBehindHang() error { return verdict.Later(time.Second, "a message before this one hangs") }
