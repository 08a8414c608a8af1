package handlers_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// BenchmarkHandle measures what it takes to handle deliveries, beside the store: they are replays, or a reaction that
// does nothing. One operation is one message.
func BenchmarkHandle(b *testing.B) {
	pass := func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error { return next(ctx, d) }
	}
	for name, middleware := range map[string][]handlers.Middleware{"bare": nil, "within middleware": {pass}} {
		for _, n := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/fold of %d", name, n), func(b *testing.B) {
				w := newWorld(b, handlers.Config{Middleware: middleware, Logger: slog.New(slog.DiscardHandler)})
				w.Decide()
				for range n {
					worldtest.Send(w.World, Add{To: "k", Amount: 1})
				}
				ds := w.receive("accounts")
				g, _ := ds[0].Group()
				handling.Handle(b.Context(), g, ds, nil)
				none := func(_ context.Context, work storage.Work, ends []int) (storage.ETag, []handling.Ended, error) {
					return "", make([]handling.Ended, len(ends)), nil
				}
				for b.Loop() {
					handling.Handle(b.Context(), g, ds, none)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/message")
			})
		}
		b.Run(name+"/reaction", func(b *testing.B) {
			w := newWorld(b, handlers.Config{Middleware: middleware, Logger: slog.New(slog.DiscardHandler)})
			handlers.React(w.Registry, "audits", func(context.Context, Added) error { return nil })
			worldtest.Send(w.World, Added{To: "k"})
			ds := w.receive("audits")
			for b.Loop() {
				handling.Handle(b.Context(), handling.Group{}, ds, nil)
			}
		})
	}
}
