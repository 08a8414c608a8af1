// Package right has the context of a right that has an end unless it is proved anew: of a lease, a term, a lock, a
// turn, a message in hand.
//
// A timer alone ends such a context too late. A process that stood still for longer than its proof lasts (stopped, in a
// debugger, on a machine without a free core) goes on, and its goroutines may run before the timer's. So each look at
// the context compares the clock with the proof first: Err, Done, Value, and with Value context.Cause. The timer is for
// those that wait.
//
// # Laws
//
//   - Err is not nil from the moment on at which the proof ends, whoever asks, and however late the timer is.
//   - A right whose end has come has ended for ever. A proof that comes later doesn't bring it back.
//   - A context that is made of a right by context.WithValue, [Within] or [WithTimeoutCause] looks as the right does.
//     One that is made by context.WithCancel or context.WithTimeout has an end of its own, so it learns of the
//     right's end by the timer, or by anybody's look at the right: also by its own Value, which asks the right.
//     [Ended] looks in this way, and each call of a store does.
//
// # Which clock
//
// The clock is Go's monotonic clock. It goes on while a process is stopped (SIGSTOP), isn't scheduled, or waits for its
// pages. On Linux it stands still while the whole machine sleeps, and in many virtual machines while the machine is
// paused or moved. After that sleep the context looks alive, for as long as the machine slept at most. No clock inside
// the machine shows that for sure, so what two holders would spoil needs a fence.
package right

import (
	"context"
	"sync"
	"time"
)

// A Right is the context of a right. Its methods may be called concurrently.
type Right struct {
	inner  context.Context // ends with the context in which the right was made
	end    context.CancelCauseFunc
	late   func(*Right)      // calls End; nil: the right has no end of its own
	others []context.Context // they end it, too
	apart  []func() bool

	mu    sync.Mutex
	till  time.Time
	timer *time.Timer // nil: others look in time
}

// New returns the context of a right that is proved until till and ends with ctx. When the proof has ended, late is
// called with the right, maybe more than once and before New returns, and calls [Right.End]. It must not wait for one
// who looks at the right. End frees what the right keeps.
func New(ctx context.Context, till time.Time, late func(*Right)) *Right {
	r := Watched(ctx, till, late)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(time.Until(till), r.look)
	return r
}

// Watched is [New] without a timer, for a caller who looks at the right often enough by itself.
func Watched(ctx context.Context, till time.Time, late func(*Right)) *Right {
	r := &Right{till: till, late: late}
	r.inner, r.end = context.WithCancelCause(ctx)
	return r
}

// Within returns a context that ends with ctx and with each of the others, and then has its cause. It has no end of its
// own, and looks at all of them.
func Within(ctx context.Context, others ...context.Context) *Right {
	r := &Right{others: others}
	r.inner, r.end = context.WithCancelCause(ctx)
	r.mu.Lock() // one of the others may end by now
	defer r.mu.Unlock()
	for _, c := range others {
		r.apart = append(r.apart, context.AfterFunc(c, func() { r.End(context.Cause(c)) }))
	}
	return r
}

// WithTimeoutCause is context.WithTimeoutCause, and its context looks at the rights that ctx is made of.
func WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, cause)
	return looking{ctx}, cancel
}

// looking is a context that has all rights look that it is made of.
type looking struct{ context.Context }

func (l looking) Err() error {
	look(l.Context)
	return l.Context.Err()
}

func (l looking) Done() <-chan struct{} {
	look(l.Context)
	return l.Context.Done()
}

func (l looking) Value(key any) any {
	look(l.Context)
	if key == (lookKey{}) {
		return nil // all have looked
	}
	return l.Context.Value(key)
}

// Prove moves the end of the right. It returns false, and moves nothing, if the end has come already: others may have
// had the right meanwhile.
func (r *Right) Prove(till time.Time) bool {
	r.mu.Lock()
	in := time.Now().Before(r.till)
	if in {
		r.till = till
		if r.timer != nil && r.inner.Err() == nil {
			r.timer.Reset(time.Until(till))
		}
	}
	r.mu.Unlock()
	if !in {
		r.late(r)
	}
	return in
}

// Proved reports that the proof lasts, whether somebody has ended the right or not.
func (r *Right) Proved() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.till)
}

// End ends the right, with nil as context.Canceled. It reports that nothing else had ended it.
func (r *Right) End(why error) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	for _, stop := range r.apart {
		stop()
	}
	first = r.inner.Err() == nil
	r.end(why)
	return first
}

// look ends the right if its end has come.
func (r *Right) look() {
	if r.inner.Err() != nil {
		return
	}
	look(r.inner)
	for _, c := range r.others {
		if Ended(c) {
			r.End(context.Cause(c))
		}
	}
	if r.late != nil && !r.Proved() {
		r.late(r)
	}
}

// Err looks at the clock.
func (r *Right) Err() error {
	r.look()
	return r.inner.Err()
}

// Done looks at the clock, so that the channel is closed already if the end has come.
func (r *Right) Done() <-chan struct{} {
	r.look()
	return r.inner.Done()
}

// Value looks at the clock, too: context.Cause asks by it.
func (r *Right) Value(key any) any {
	r.look()
	if key == (lookKey{}) {
		return nil // it has looked at all that it is within
	}
	return r.inner.Value(key)
}

// Deadline is that of the context in which the right was made.
func (r *Right) Deadline() (time.Time, bool) { return r.inner.Deadline() }

// lookKey has no value. It lets all rights look that a context is made of.
type lookKey struct{}

// Ended reports that ctx has ended, after all rights that ctx is made of have looked at the clock.
func Ended(ctx context.Context) bool {
	look(ctx)
	return ctx.Err() != nil
}

func look(ctx context.Context) { _ = ctx.Value(lookKey{}) }
