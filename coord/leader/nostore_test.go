package leader_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/millrace-go/millrace/coord/leader"
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
	run := leader.Run(ctx, nil, "a", leader.Config{}, func(context.Context, leader.Term) error { return nil })
	_, current := leader.Current(ctx, nil, "a")
	return map[string]error{"Run": run, "Current": current, "Watch": first(leader.Watch(ctx, nil, "a")), "List": first(leader.List(ctx, nil))}
}

// first returns the error that a listing begins with.
func first[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}
