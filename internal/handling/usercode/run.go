// Package usercode calls the user's code, which may return, panic, end its goroutine (runtime.Goexit, as a test's
// FailNow does) or never return. The last two can't be stopped from outside. So the user's code runs on goroutines of
// its own that may be lost, and the caller waits beside them.
//
//	err := usercode.Do(f)                     // on this goroutine: a panic is an error
//	err := usercode.Contain(f)                // on a goroutine of its own, for as long as it takes
//	usercode.Guard(what, n, f, use, failed)   // n calls, each given up when it hangs
//	r := usercode.Start(f); r.Watch(ctx, limit) // calls that the caller knows one by one
//
// # Files
//
//	run.go    Run: a goroutine for the user's code, and who waits for it
//	guard.go  Guard and Contain, which need no more of a Run than its result
//	stack.go  Do, and what the errors of panics and hangs show of the stack
package usercode

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/handling/verdict"
)

// A Run is a goroutine that runs the user's code.
type Run struct {
	ended    chan struct{}
	returned bool                // the goroutine ended by returning; read it after ended
	fault    *verdict.PanicError // how else it ended; read it after ended

	call atomic.Int64 // counts the user's calls: odd while one runs; givenUp when that call is no longer waited for
	at   atomic.Int64 // which delivery the call is for
}

const givenUp = -2

// Start runs f on a goroutine of its own.
func Start(f func(r *Run)) *Run {
	r := &Run{ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		defer func() {
			if !r.returned {
				r.fault = &verdict.PanicError{Text: contain.Exited} // used if the text of the panic's value ends the goroutine
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
func (r *Run) main(f func(r *Run)) {
	f(r)
	r.returned = true
}

// begin notes that a call of the user's code begins.
func (r *Run) begin(at int) (call int64) {
	r.at.Store(int64(at))
	return r.call.Add(1)
}

// end notes that the call has returned. If it was given up meanwhile, the goroutine ends here, so that the call's
// result has no effect.
func (r *Run) end(call int64) {
	if !r.call.CompareAndSwap(call, call+1) {
		runtime.Goexit()
	}
}

// Call calls the user's code for a delivery. A panic becomes an error. Its error runs none of the user's code.
func (r *Run) Call(at int, f func() error) error {
	call := r.begin(at)
	err := callUser(f)
	r.end(call)
	return err
}

// callUser marks where stacks are cut: the frames below it are the framework's.
//
//go:noinline
func callUser(f func() error) error {
	return Do(func() error { return verdict.Settled(f()) })
}

// InCall reports whether the goroutine ended in a call of the user's code, and for which delivery.
func (r *Run) InCall() (delivery int, ok bool) { return int(r.at.Load()), r.call.Load()&1 == 1 }

// Ended is closed when the goroutine has ended.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Fault tells how the goroutine ended if it didn't return: by a panic or by runtime.Goexit. It is nil if it returned.
// Call it after Ended.
func (r *Run) Fault() error {
	if r.returned {
		return nil
	}
	return r.fault
}

// UntilDone means that only the end of the context limits a call.
const UntilDone = 0

// Watch waits for the goroutine to end. It gives up a call of the user's code that takes longer than limit, or that
// goes on for longer than verdict.GiveUpAfter after the end of ctx. It returns which delivery a given-up call is for.
func (r *Run) Watch(ctx context.Context, limit time.Duration) (delivery int, hangs bool) {
	done, every := ctx.Done(), min(limit, verdict.GiveUpAfter)
	if limit == UntilDone {
		select {
		case <-r.ended:
			return 0, false
		case <-done: // the loop below reads it again
		}
		every = verdict.GiveUpAfter
	}
	t := time.NewTimer(every)
	defer t.Stop()
	call, since := int64(1), time.Now() // the first call begins soon
	for {
		select {
		case <-r.ended:
			return 0, false
		case <-done:
			done, limit, every = nil, verdict.GiveUpAfter, verdict.GiveUpAfter
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
