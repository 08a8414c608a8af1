package ids_test

import (
	"context"
	"testing"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/internal/agreetest"
)

func TestAStoreThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	agreetest.Refused(t, withoutStore(t.Context()))
}

func withoutStore(ctx context.Context) map[string]error {
	_, open := ids.Open(nil, "orders", ids.Config{})
	_, state := ids.State(ctx, nil, "orders")
	return map[string]error{"Open": open, "State": state, "Raise": ids.Raise(ctx, nil, "orders", 1), "List": agreetest.First(ids.List(ctx, nil))}
}
