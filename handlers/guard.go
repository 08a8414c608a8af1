package handlers

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// The user's code may return, panic, end its goroutine (runtime.Goexit, as a test's FailNow does) or never return. Nobody can
// stop the last two from outside. So the user's code runs on goroutines that can be spared, and whoever waits for it waits
// beside it.

// giveUpAfter is how long a handler may go on after the end of its context before it is given up.
const giveUpAfter = 10 * time.Second

// run is a goroutine that runs the user's code.
type run struct {
	ended    chan struct{}
	returned bool        // it ended by returning; read it after ended
	fault    *PanicError // else how; likewise

	call atomic.Int64 // counts the user's calls: odd while one runs; givenUp when nobody waits for that one any more
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
				r.fault = &PanicError{Text: exited} // should the text of what was panicked with end the goroutine
				r.fault = newPanicError(recover())
			}
		}()
		f(r)
		r.returned = true
	}()
	return r
}

// user calls the user's code for a delivery. A panic is an error like any other. If the call was given up meanwhile, the
// goroutine ends here, so that what the call came to has no effect.
func (r *run) user(ctx context.Context, at int, d *Delivery) error {
	r.at.Store(int64(at))
	n := r.call.Add(1)
	err := callUser(ctx, d)
	if !r.call.CompareAndSwap(n, n+1) {
		runtime.Goexit()
	}
	return err
}

// callUser is where stacks are cut: what is below it in a stack is the framework's.
func callUser(ctx context.Context, d *Delivery) (err error) {
	defer caught(&err)
	return settled(d.Handler.run(ctx, d))
}

// inCall tells whether the goroutine ended in a call of the user's code, and for which delivery.
func (r *run) inCall() (delivery int, ok bool) { return int(r.at.Load()), r.call.Load()&1 == 1 }

// untilDone is no limit but the end of the context.
const untilDone = 0

// watch waits for the goroutine to end. It gives up a call of the user's code that takes longer than limit, or goes on for
// longer than giveUpAfter after the end of ctx, and returns which delivery the call is for.
func (r *run) watch(ctx context.Context, limit time.Duration) (delivery int, hangs bool) {
	done, every := ctx.Done(), min(limit, giveUpAfter)
	if limit == untilDone {
		select {
		case <-r.ended:
			return 0, false
		case <-done: // below again
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

// Guard calls f(0) to f(n-1), one after the other, on a goroutine that can be spared. Where one of these calls ends the
// goroutine, by a panic or by runtime.Goexit, failed is called with an error that says so, and the next call follows on
// another goroutine.
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
