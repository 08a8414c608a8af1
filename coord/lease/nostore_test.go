package lease_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
)

func TestAStoreThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	for call, err := range withoutStore(t.Context()) {
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", call, err)
		}
	}
}

func withoutStore(ctx context.Context) map[string]error {
	_, acquire := lease.Acquire(ctx, nil, "a", lease.Config{})
	_, try := lease.Try(ctx, nil, "a", lease.Config{})
	_, state := lease.State(ctx, nil, "a")
	do := lease.Do(ctx, nil, "a", lease.Config{}, func(context.Context, *lease.Lease) error { return nil })
	update := lease.Update(ctx, nil, "docs", "a", lease.Config{}, func(_ context.Context, old []byte) ([]byte, error) { return old, nil })
	return map[string]error{"Acquire": acquire, "Try": try, "State": state, "Do": do, "Update": update,
		"Break": lease.Break(ctx, nil, "a", lease.Note{By: "Ann"}), "List": first(lease.List(ctx, nil, nil))}
}

// first returns the error that a listing begins with.
func first[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}
