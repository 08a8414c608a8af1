package handlers

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
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
				r.fault = &PanicError{Text: exited} // used if the text of the panic's value ends the goroutine
				r.fault = newPanicError(recover())
			}
		}()
		f(r)
		r.returned = true
	}()
	return r
}

// user calls the user's code for a delivery. A panic becomes an error. If the call was given up meanwhile, the
// goroutine ends here, so that the call's result has no effect.
func (r *run) user(ctx context.Context, at int, d *Delivery) error {
	r.at.Store(int64(at))
	n := r.call.Add(1)
	err := callUser(ctx, d)
	if !r.call.CompareAndSwap(n, n+1) {
		runtime.Goexit()
	}
	return err
}

// callUser marks where stacks are cut: the frames below it are the framework's.
func callUser(ctx context.Context, d *Delivery) (err error) {
	defer caught(&err)
	return settled(d.Handler.run(ctx, d))
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

// Guard calls f(0) to f(n-1), one after the other, on a goroutine that may be lost. If a call ends the goroutine, by a
// panic or by runtime.Goexit, Guard calls failed with an error that says so, and goes on with the next call on another
// goroutine.
func Guard(n int, f func(i int), failed func(i int, err error)) {
	for next := 0; next < n; next++ {
		r := start(func(*run) {
			for ; next < n; next++ {
				f(next)
			}
		})
		<-r.ended
		if !r.returned {
			failed(next, r.fault)
		}
	}
}
