package signal_test

import (
	"context"
	"testing"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/internal/agreetest"
)

func TestAStoreThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	agreetest.Refused(t, withoutStore(t.Context()))
}

func withoutStore(ctx context.Context) map[string]error {
	_, broadcast := signal.Broadcast(ctx, nil, "a", nil)
	_, one := signal.One(ctx, nil, "a", nil)
	_, any := signal.Any(ctx, nil, "a")
	_, all := signal.All(ctx, nil, "a")
	_, listen := signal.Listen(ctx, nil, "a")
	return map[string]error{"Broadcast": broadcast, "One": one, "Any": any, "All": all, "Listen": listen}
}
