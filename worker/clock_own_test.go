package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A handler's look at its context compares the clock with the end of ownership, whenever the worker looks itself.
func TestAHandlerThatLooksFirstSeesTheEndOfOwnership(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const visibility = 12 * time.Second
		var asked time.Time
		hooked := storagetest.Intercept(storagetest.Plain(s), func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "extend" {
				<-ctx.Done() // it hangs
				return op.Fail(storage.ErrUnavailable)
			}
			began := time.Now()
			err := do()
			if op.Name == "receive" && op.Resource == "queue jobs" && err == nil && asked.IsZero() {
				asked = began
			}
			return err
		})
		looked := make(chan error, 1)
		l := newLab(t, hooked, func(ctx context.Context, _ job) error {
			time.Sleep(time.Until(asked.Add(visibility * 5 / 6)))
			looked <- context.Cause(ctx)
			return ctx.Err()
		})
		l.sendJobs(t, job{ID: "a"})
		stop := l.Start(worker.Config{Visibility: visibility, Name: "one"})
		if cause := <-looked; cause != worker.ErrOwnershipLost {
			t.Errorf("at the end of ownership the cause is %v, want %v", cause, worker.ErrOwnershipLost)
		}
		stop()
	})
}
