package ids_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/millrace-go/millrace/coord/ids"
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
	_, open := ids.Open(nil, "orders", ids.Config{})
	_, state := ids.State(ctx, nil, "orders")
	return map[string]error{"Open": open, "State": state, "Raise": ids.Raise(ctx, nil, "orders", 1), "List": first(ids.List(ctx, nil))}
}

// first returns the error that a listing begins with.
func first[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}
