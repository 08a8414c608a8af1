package guard_test

import (
	"context"
	"testing"

	"github.com/millrace-go/millrace/guard"
)

func BenchmarkClosed(b *testing.B) {
	for name, cfg := range map[string]guard.Config{"timeout": {}, "no timeout": {Timeout: guard.NoTimeout}, "limits": {Timeout: guard.NoTimeout, Rate: 1e9, Slots: 1000}} {
		b.Run(name, func(b *testing.B) {
			g, ctx := guard.New("smtp", cfg), handling(b, id(1), 1)
			f := func(context.Context) error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				_ = g.Do(ctx, f)
			}
		})
	}
}

func TestAClosedBreakerAllocatesNothing(t *testing.T) {
	g, ctx := guard.New("smtp", guard.Config{Timeout: guard.NoTimeout}), handling(t, id(1), 1)
	f := func(context.Context) error { return nil }
	if n := testing.AllocsPerRun(100, func() { _ = g.Do(ctx, f) }); n > 0 {
		t.Errorf("%v allocations a call, want none", n)
	}
}
