package settings

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// errGone is the error of code that ended its goroutine.
var errGone = errors.New("it ended its goroutine (runtime.Goexit)")

// An outcome is what became of a node's own code.
type outcome[R any] struct {
	value R
	err   error
}

// contain runs a node's own code in a goroutine of its own, so that a panic and a Goexit end as errors.
func contain[R any](what string, f func() (R, error)) <-chan outcome[R] {
	done := make(chan outcome[R], 1)
	go func() {
		o := outcome[R]{err: fmt.Errorf("%s: %w", what, errGone)}
		defer func() {
			if p := recover(); p != nil {
				o.err = fmt.Errorf("%s: panic: %s", what, clean(fmt.Sprint(p), maxReason))
			}
			done <- o
		}()
		v, err := f()
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
		o = outcome[R]{v, err}
	}()
	return done
}

// within is contain for code that must return within d. Code that has not is left behind: its context has ended, and
// its result is ignored.
func within[R any](ctx context.Context, d time.Duration, what string, f func(ctx context.Context) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("%w: %s has not returned within %v", storage.ErrUnavailable, what, d))
	defer cancel()
	select {
	case o := <-contain(what, func() (R, error) { return f(ctx) }):
		return o.value, o.err
	case <-ctx.Done():
		var none R
		return none, context.Cause(ctx)
	}
}
