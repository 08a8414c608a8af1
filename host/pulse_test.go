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
	"github.com/millrace-go/millrace/pulse"
	"github.com/millrace-go/millrace/throttle"
)

// A program that stops publishes what its worker did since the last minute, after the worker has ended. Off means
// never.
func TestTheLastPulse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every time.Duration
		want  int64 // messages in pulses
	}{"by default": {0, 5}, "off": {pulse.Off, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const orders = 5
			var begun atomic.Int64
			all, finish := make(chan struct{}), make(chan struct{})
			var level *throttle.Level
			p := shop()
			p.Pulse, p.Version = c.every, "v7"
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
			if err := level.Set(3); err != nil { // for the last pulse
				t.Error(err)
			}
			r.stop()
			close(finish) // the messages end while the worker drains
			if code := <-r.code; code != host.ExitOK {
				t.Errorf("got exit code %d", code)
			}
			pulses, err := pulse.Read(t.Context(), worldtest.OpenAt(t, filepath.Join(r.dir, "shop.db")))
			if err != nil {
				t.Fatal(err)
			}
			var done int64
			for _, p := range pulses {
				done += p.Queues["orders"].Done
				if from := p.Queues["orders"].WaitsFrom; from != 2 {
					t.Errorf("the queue waits from level %d, want 2", from)
				}
				if p.Program != "shop" || p.Version != "v7" || !p.Last {
					t.Errorf("got %+v", p)
				}
			}
			worldtest.Want(t, "messages in pulses", done, c.want)
		})
	}
}

// A program whose pulse can't be right doesn't start.
func TestAPulseThatIsTooFast(t *testing.T) {
	t.Parallel()
	p := shop()
	p.Pulse = time.Second
	r := start(t, p, "worker", "-admin=off")
	worldtest.Want(t, "exit code", <-r.code, host.ExitError)
	r.line(t, "want at least 10s")
}
