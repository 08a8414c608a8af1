package guard_test

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// Law 11: a call that ignores its context until its handler is given up isn't made again by a guess, and neither is one
// that ends its goroutine after a request, or whose error can't be judged.
func TestLaw11AHangRepeatsNoCall(t *testing.T) {
	each := func(h *handlers.Registry, f func(context.Context, job) error) { handlers.React(h, "jobs", f) }
	once := func(h *handlers.Registry, f func(context.Context, job) error) { handlers.ReactOnce(h, "jobs", f) }
	inTurn := func(h *handlers.Registry, f func(context.Context, job) error) {
		handlers.OneAtATime(h, "jobs", func(job) string { return "a" }, f)
	}
	around := func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error { return next(ctx, d) }
	}
	hang := func(context.Context, *http.Client) error { <-time.After(10 * time.Minute); return nil }
	exit := func(ctx context.Context, bank *http.Client) error {
		_ = posting(bank, "http://bank.example")(ctx)
		runtime.Goexit()
		return nil
	}
	odd := func(ctx context.Context, bank *http.Client) error {
		_ = posting(bank, "http://bank.example")(ctx)
		return nilError(nil) // whose methods panic
	}
	puzzles := func(error) guard.Fault { panic("no idea") }
	answers := tripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Request: r, Body: http.NoBody}, nil
	})
	says := func(k guard.Kind) func(error) guard.Fault {
		return func(error) guard.Fault { return guard.Fault{Kind: k} }
	}
	for name, c := range map[string]struct {
		register   func(*handlers.Registry, func(context.Context, job) error)
		middleware handlers.Middleware
		call       func(context.Context, *http.Client) error
		cfg        guard.Config
		calls      int32
		poisoned   int
	}{
		"React":          {register: each, call: hang, calls: 1, poisoned: 1},
		"ReactOnce":      {register: once, call: hang, calls: 1, poisoned: 1},
		"in turn":        {register: inTurn, call: hang, calls: 1, poisoned: 1},
		"middleware":     {register: each, middleware: around, call: hang, calls: 1, poisoned: 1},
		"its goroutine":  {register: each, call: exit, calls: 1, poisoned: 1},
		"repeatable":     {register: each, call: hang, cfg: guard.Config{Repeatable: true}, calls: 2},
		"verified":       {register: each, call: hang, cfg: guard.Config{Verify: func(context.Context, string) (bool, error) { return false, nil }}, calls: 2},
		"known undone":   {register: each, call: hang, cfg: guard.Config{Fault: says(guard.Transient)}, calls: 2},
		"can't be known": {register: each, call: hang, cfg: guard.Config{Fault: puzzles}, calls: 1, poisoned: 1},
		"a nil error":    {register: once, call: odd, calls: 1, poisoned: 1},
		"puzzles":        {register: once, call: odd, cfg: guard.Config{Fault: puzzles}, calls: 1, poisoned: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls atomic.Int32
				hc := handlers.Config{Timeout: time.Minute}
				if c.middleware != nil {
					hc.Middleware = []handlers.Middleware{c.middleware}
				}
				w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), hc, channel.Command[job]("jobs"))
				c.cfg.Logger = slog.New(slog.DiscardHandler)
				g := guard.New("bank", c.cfg)
				bank := &http.Client{Transport: g.Transport(answers)}
				c.register(w.Registry, guard.Around(g, func(ctx context.Context, _ job) error {
					if calls.Add(1) > 1 {
						return nil
					}
					return c.call(ctx, bank)
				}))
				stop := w.Start(worker.Config{Logger: slog.New(slog.DiscardHandler), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}})
				s, err := channel.NewSender[job](w.Channels)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Send(t.Context(), job{1}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Minute)
				poisoned := w.Poisoned("jobs")
				if calls.Load() != c.calls || len(poisoned) != c.poisoned {
					t.Errorf("%d calls, poisoned %+v; want %d calls, %d poisoned", calls.Load(), poisoned, c.calls, c.poisoned)
				}
				for _, p := range poisoned {
					worldtest.Want(t, "the reason", p.Reason, guard.ReasonUnknown)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
