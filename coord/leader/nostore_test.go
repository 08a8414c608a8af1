package leader_test

import (
	"context"
	"testing"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/internal/agreetest"
)

func TestAStoreThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	agreetest.Refused(t, withoutStore(t.Context()))
}

func withoutStore(ctx context.Context) map[string]error {
	run := leader.Run(ctx, nil, "a", leader.Config{}, func(context.Context, leader.Term) error { return nil })
	_, current := leader.Current(ctx, nil, "a")
	return map[string]error{"Run": run, "Current": current, "Watch": agreetest.First(leader.Watch(ctx, nil, "a")), "List": agreetest.First(leader.List(ctx, nil))}
}
