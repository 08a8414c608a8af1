package host_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/throttle"
)

// A program that stops publishes what its worker did since the last minute, after the worker has ended. Off means
// never.
func TestTheLastReport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every time.Duration
		want  int64 // messages in reports
	}{"by default": {0, 5}, "off": {catalog.NoReports, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const orders = 5
			var begun atomic.Int64
			all, finish := make(chan struct{}), make(chan struct{})
			var level *throttle.Level
			p := shop()
			p.ReportEvery, p.Version = c.every, "v7"
			p.Register = func(h *handlers.Registry) error {
				handlers.React(h, "orders", func(context.Context, order) error {
					if begun.Add(1) == orders {
						close(all)
					}
					<-finish
					return nil
				})
				handlers.Optional(h, "orders", 2)
				return nil
			}
			p.Start = func(ctx context.Context, a *host.App) error {
				level = a.Level
				return a.Channels.Send(ctx, order{"a"}, order{"b"}, order{"c"}, order{"d"}, order{"e"})
			}
			r := start(t, p, "worker", "-admin=off")
			<-all
			if err := level.Set(3); err != nil { // for the last report
				t.Error(err)
			}
			r.stop()
			close(finish) // the messages end while the worker drains
			if code := <-r.code; code != host.ExitOK {
				t.Errorf("got exit code %d", code)
			}
			reports, err := catalog.ReadReports(t.Context(), worldtest.OpenAt(t, filepath.Join(r.dir, "shop.db")))
			if err != nil {
				t.Fatal(err)
			}
			var done int64
			for _, p := range reports {
				done += p.Queues["orders"].Done
				if from := p.Queues["orders"].WaitsFrom; from != 2 {
					t.Errorf("the queue waits from level %d, want 2", from)
				}
				if p.Program != "shop" || p.Version != "v7" || !p.Last {
					t.Errorf("got %+v", p)
				}
			}
			worldtest.Want(t, "messages in reports", done, c.want)
		})
	}
}

// A program whose report can't be right doesn't start.
func TestReportsThatAreTooFrequent(t *testing.T) {
	t.Parallel()
	p := shop()
	p.ReportEvery = time.Second
	r := start(t, p, "worker", "-admin=off")
	worldtest.Want(t, "exit code", <-r.code, host.ExitError)
	r.line(t, "want at least 10s")
}
