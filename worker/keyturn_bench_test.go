package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// BenchmarkOneAtATime drains messages by a reaction, and by one that runs in turn, of one key and of many.
func BenchmarkOneAtATime(b *testing.B) {
	for _, keys := range []int{0, 1, 100, 1000} {
		name := fmt.Sprint("keys=", keys)
		if keys == 0 {
			name = "React"
		}
		b.Run(name, func(b *testing.B) {
			var requests, done atomic.Int64
			store := storagetest.Intercept(worldtest.OpenStore(b, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
				if strings.Contains(op.Resource, "turns/") {
					requests.Add(1)
				}
				return do()
			})
			w := worldtest.NewBare(b, store, handlers.Config{}, channel.Command[noop]("noops"))
			f := func(context.Context, noop) error { done.Add(1); return nil }
			if keys == 0 {
				handlers.React(w.Registry, "noops", f)
			} else {
				handlers.OneAtATime(w.Registry, "noops", func(m noop) string { return fmt.Sprint(m.N % keys) }, f)
			}
			for sent := 0; sent < b.N; {
				batch := make([]noop, min(1000, b.N-sent))
				for i := range batch {
					batch[i] = noop{N: sent + i, Payload: payload}
				}
				worldtest.Send(w, batch...)
				sent += len(batch)
			}
			b.ResetTimer()
			stop := w.Start(worker.Config{})
			worldtest.Eventually(b, func() error {
				if n := done.Load(); n < int64(b.N) {
					return fmt.Errorf("%d of %d", n, b.N)
				}
				return nil
			})
			b.StopTimer()
			if err := stop(); err != nil {
				b.Fatal(err)
			}
			rate(b, b.N)
			b.ReportMetric(float64(requests.Load())/float64(b.N), "turn-requests/msg")
		})
	}
}
