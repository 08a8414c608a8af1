package guard_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

func BenchmarkClosed(b *testing.B) {
	for name, cfg := range map[string]guard.Config{"timeout": {}, "no timeout": {Timeout: guard.NoTimeout}, "limits": {Timeout: guard.NoTimeout, Rate: 1e9, Slots: 1000}, "adaptive": {Timeout: guard.NoTimeout, Adaptive: guard.Adaptive{Most: 1000}}} {
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

// BenchmarkDrain measures what a guard, and limits that don't bind, cost a worker that drains a queue of b.N messages.
func BenchmarkDrain(b *testing.B) {
	for _, x := range []struct {
		name string
		cfg  *guard.Config
	}{
		{"no guard", nil},
		{"guard", &guard.Config{}},
		{"limits", &guard.Config{Rate: 1e6, Slots: 1000}},
		{"adaptive", &guard.Config{Adaptive: guard.Adaptive{Least: 64, Most: 1000}}},
	} {
		b.Run(x.name, func(b *testing.B) {
			w := worldtest.NewBare(b, worldtest.OpenStore(b, ""), handlers.Config{}, channel.Command[job]("jobs"))
			for i := 0; i < b.N; i += 50 {
				worldtest.Send(w, slices.Repeat([]job{{N: i}}, min(50, b.N-i))...)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan bool)
			call := func(context.Context) error {
				if left.Add(-1) == 0 {
					close(done)
				}
				return nil
			}
			queue := worker.QueueConfig{}
			run := call
			if x.cfg != nil {
				g := guard.New("smtp", *x.cfg)
				queue.Limiter = g.Limiter
				run = func(ctx context.Context) error { return g.Do(ctx, call) }
			}
			handlers.React(w.Registry, "jobs", func(ctx context.Context, _ job) error { return run(ctx) })
			b.ResetTimer()
			stop := w.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": queue}})
			<-done
			b.StopTimer()
			if err := stop(); err != nil {
				b.Error(err)
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
