package gate_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/internal/agreetest"
)

func TestAStoreThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	agreetest.Refused(t, withoutStore(t.Context()))
}

func withoutStore(ctx context.Context) map[string]error {
	g := gate.At(nil, "sales")
	_, state := g.State(ctx)
	_, made := gate.New(nil, "sales", gate.Config{})
	return map[string]error{"New": made, "State": state, "Wait": g.Wait(ctx), "Open": g.Open(ctx, gate.Note{}), "Close": g.Close(ctx, gate.Note{}),
		"OpenAt": g.OpenAt(ctx, time.Now(), gate.Note{}), "Watch": agreetest.First(g.Watch(ctx)), "List": agreetest.First(gate.List(ctx, nil))}
}
