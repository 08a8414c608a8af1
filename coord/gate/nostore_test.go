package gate_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
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
	g := gate.At(nil, "sales")
	_, state := g.State(ctx)
	_, made := gate.New(nil, "sales", gate.Config{})
	return map[string]error{"New": made, "State": state, "Wait": g.Wait(ctx), "Open": g.Open(ctx, gate.Note{}), "Close": g.Close(ctx, gate.Note{}),
		"OpenAt": g.OpenAt(ctx, time.Now(), gate.Note{}), "Watch": first(g.Watch(ctx)), "List": first(gate.List(ctx, nil))}
}

// first returns the error that a listing begins with.
func first[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}
