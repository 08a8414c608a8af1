package lease_test

import (
	"context"
	"testing"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
)

func TestAStoreThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	agreetest.Refused(t, withoutStore(t.Context()))
}

func withoutStore(ctx context.Context) map[string]error {
	_, acquire := lease.Acquire(ctx, nil, "a", lease.Config{})
	_, try := lease.Try(ctx, nil, "a", lease.Config{})
	_, state := lease.State(ctx, nil, "a")
	do := lease.Do(ctx, nil, "a", lease.Config{}, func(context.Context, *lease.Lease) error { return nil })
	update := lease.Update(ctx, nil, "docs", "a", lease.Config{}, func(_ context.Context, old []byte) ([]byte, error) { return old, nil })
	return map[string]error{"Acquire": acquire, "Try": try, "State": state, "Do": do, "Update": update,
		"Break": lease.Break(ctx, nil, "a", lease.Note{By: "Ann"}), "List": agreetest.First(lease.List(ctx, nil, nil))}
}
