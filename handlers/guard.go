package handlers

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
)

// The user's code may return, panic, end its goroutine (runtime.Goexit, as a test's FailNow does) or never return. The
// last two can't be stopped from outside. So the user's code runs on goroutines of its own that may be lost, and the
// caller waits beside them.

// giveUpAfter is how long a handler may go on after the end of its context before it is given up.
const giveUpAfter = 10 * time.Second

// run is a goroutine that runs the user's code.
type run struct {
	ended    chan struct{}
	returned bool        // the goroutine ended by returning; read it after ended
	fault    *PanicError // how else it ended; read it after ended

	call atomic.Int64 // counts the user's calls: odd while one runs; givenUp when that call is no longer waited for
	at   atomic.Int64 // which delivery the call is for
}

const givenUp = -2

// start runs f on a goroutine of its own.
func start(f func(r *run)) *run {
	r := &run{ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		defer func() {
			if !r.returned {
				r.fault = &PanicError{Text: contain.Exited} // used if the text of the panic's value ends the goroutine
				r.fault = newPanicError(contain.Caught(recover()))
			}
		}()
		deepen()
		r.main(f)
	}()
	return r
}

// stackRoom is how much stack a goroutine gets at once for the user's code and for what the framework does with its
// result. Without it, the stack would be doubled and copied several times on the way down, for each message anew.
const stackRoom = 12 << 10

//go:noinline
func deepen() {
	var room [stackRoom]byte
	touch(&room)
}

//go:noinline
func touch(room *[stackRoom]byte) { room[0] = 1 }

// main has a frame of its own, which shows r. By that stack knows the goroutine among all others.
//
//go:noinline
func (r *run) main(f func(r *run)) {
	f(r)
	r.returned = true
}

// begin notes that a call of the user's code begins.
func (r *run) begin(at int) (call int64) {
	r.at.Store(int64(at))
	return r.call.Add(1)
}

// end notes that the call has returned. If it was given up meanwhile, the goroutine ends here, so that the call's
// result has no effect.
func (r *run) end(call int64) {
	if !r.call.CompareAndSwap(call, call+1) {
		runtime.Goexit()
	}
}

// user calls the user's code for a delivery. A panic becomes an error.
func (r *run) user(at int, f func() error) error {
	call := r.begin(at)
	err := callUser(f)
	r.end(call)
	return err
}

// callUser marks where stacks are cut: the frames below it are the framework's.
//
//go:noinline
func callUser(f func() error) error {
	return contained(func() error { return settled(f()) })
}

// inCall reports whether the goroutine ended in a call of the user's code, and for which delivery.
func (r *run) inCall() (delivery int, ok bool) { return int(r.at.Load()), r.call.Load()&1 == 1 }

// untilDone means that only the end of the context limits a call.
const untilDone = 0

// watch waits for the goroutine to end. It gives up a call of the user's code that takes longer than limit, or that
// goes on for longer than giveUpAfter after the end of ctx. It returns which delivery a given-up call is for.
func (r *run) watch(ctx context.Context, limit time.Duration) (delivery int, hangs bool) {
	done, every := ctx.Done(), min(limit, giveUpAfter)
	if limit == untilDone {
		select {
		case <-r.ended:
			return 0, false
		case <-done: // the loop below reads it again
		}
		every = giveUpAfter
	}
	t := time.NewTimer(every)
	defer t.Stop()
	call, since := int64(1), time.Now() // the first call begins soon
	for {
		select {
		case <-r.ended:
			return 0, false
		case <-done:
			done, limit, every = nil, giveUpAfter, giveUpAfter
			call, since = r.call.Load(), time.Now()
		case now := <-t.C:
			if n := r.call.Load(); n != call {
				call, since = n, now
			} else if n&1 == 1 && now.Sub(since) >= limit && r.call.CompareAndSwap(n, givenUp) {
				return int(r.at.Load()), true
			}
		}
		t.Reset(every)
	}
}

// guardLimit is how long a call under [Guard] may take. It is given up giveUpAfter later.
const guardLimit = 10 * time.Second

// Guard calls f(0) to f(n-1), one after the other, on a goroutine that may be lost, and use with each result. f calls
// the user's code that is named by what; use doesn't. Both run on that goroutine. Where f ends the goroutine, by a
// panic or by runtime.Goexit, Guard calls failed with an error that says so, and goes on with the next call on another
// goroutine.
//
// A call of f that hangs is given up after 20 to 30 seconds: failed gets a [HangError], and whatever f returns later is
// not used. So the user's code must be the last thing in f, and f must change nothing after it. The calls that would
// follow are not made, because they might take as long: failed gets a [LaterError] for each.
func Guard[T any](what string, n int, f func(i int) T, use func(i int, result T), failed func(i int, err error)) {
	for next := 0; next < n; next++ {
		from := next
		r := start(func(r *run) {
			for i := from; i < n; i++ {
				call := r.begin(i)
				result := f(i)
				r.end(call)
				use(i, result)
			}
		})
		at, hung := r.watch(context.Background(), guardLimit+giveUpAfter)
		if hung {
			failed(at, hangs(r, what, guardLimit, allStacks()))
			for i := at + 1; i < n; i++ {
				failed(i, errBehindHang())
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
// returns the error of f, whose methods don't panic, or a [PanicError] if f ends that goroutine, by a panic or by
// runtime.Goexit.
func Contain(f func() error) (err error) {
	r := start(func(*run) { err = contain.Sound(f()) })
	if <-r.ended; !r.returned {
		return r.fault
	}
	return err
}

// errBehindHang is the error of deliveries that were not handled, so that they don't wait through another hang.
func errBehindHang() error { return Later(time.Second, "a message before this one hangs") }
