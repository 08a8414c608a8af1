package settings

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
)

// within calls a node's own code, which must return within d, however it ends: a panic and runtime.Goexit are errors.
// Code that has not returned is left behind: its context has ended, and its result is ignored.
func within[R any](ctx context.Context, d time.Duration, what string, f func(ctx context.Context) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("%w: %s has not returned within %v", storage.ErrUnavailable, what, d))
	defer cancel()
	var none, value R
	ended := contain.Start(func() (err error) { value, err = f(ctx); return err })
	select {
	case err := <-ended:
		if err != nil {
			return none, fmt.Errorf("%s: %w", what, err)
		}
		return value, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
