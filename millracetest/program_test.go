package millracetest_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/millracetest"
)

// The middleware, the timeout and the logger of a program are those of its worker.
func TestHandlersConfig(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var mu sync.Mutex
	var said bytes.Buffer
	p := program(&mails{})
	p.Handlers = handlers.Config{
		Logger:  slog.New(slog.NewTextHandler(lockedWriter{&mu, &said}, nil)),
		Timeout: time.Second,
		Middleware: []handlers.Middleware{func(next handlers.Next) handlers.Next {
			return func(ctx context.Context, d *handlers.Delivery) error {
				calls.Add(1)
				return next(ctx, d)
			}
		}},
	}
	p.Register = func(h *handlers.Registry) error {
		handlers.React(h, "orders", func(ctx context.Context, _ place) error {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Second {
				t.Errorf("the deadline is %v (%v), want one within a second", at, ok)
			}
			return handlers.Poison("no such seats", nil)
		})
		return nil
	}
	millracetest.Run(t, p, func(_ *testing.T, app *millracetest.App) {
		app.Send(place{"a", -1})
		app.Drain()
		app.Poison()
	})
	mu.Lock()
	defer mu.Unlock()
	if n := calls.Load(); n != 1 || !strings.Contains(said.String(), "no such seats") {
		t.Errorf("the middleware ran %d times, and the logger got %q; want once, and the reason", n, said.String())
	}
}

// A message that a middleware ends is left out of the run's decisions, and out of the repeated ones.
func TestMiddlewareUnderFaults(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		p := program(&mails{})
		p.Handlers.Middleware = []handlers.Middleware{func(next handlers.Next) handlers.Next {
			return func(ctx context.Context, d *handlers.Delivery) error {
				if m, ok := d.Message.(place); ok && m.Seats == 7 {
					return nil
				}
				return next(ctx, d)
			}
		}}
		sim.Start(p)
		sim.Send(place{"a", 1}, place{"a", 7})
		sim.Settle()
		if n := millracetest.Value(t, orders(sim.Channels()), "a").Seats; n != 1 {
			t.Errorf("seats: got %d, want 1", n)
		}
	}, 1, 2)
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
