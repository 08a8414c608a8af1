package worldtest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// Config is a test's changes to the world.
type Config struct {
	// Groups are the subscribers of Added. Defaults to Totals and Audits.
	Groups []string

	// Routes are the routes of the test's own messages. Defaults to none.
	Routes []channel.Route

	// Accounts and Totals are the collection's and the view's.
	Accounts values.Config[Account]
	Totals   views.Config[Total]

	// Handlers is the registry's. Its Logger defaults to one that discards.
	Handlers handlers.Config

	// Channels returns the channels that all works through, such as those of TraceWith. Defaults to none but the world's.
	Channels func(*channel.Channels) *channel.Channels
}

// World is the domain on a store. It begins without handlers.
type World struct {
	Store    *storage.Store
	Channels *channel.Channels
	Registry *handlers.Registry
	Accounts *values.Collection[Account]
	Totals   *views.View[Total]

	t testing.TB
}

// New makes a world.
func New(t testing.TB, s *storage.Store, cfg Config) *World {
	t.Helper()
	if len(cfg.Groups) == 0 {
		cfg.Groups = []string{Totals, Audits}
	}
	own := []channel.Route{channel.Command[Add](Accounts), channel.Event[Added](cfg.Groups...), channel.Event[Refused](Audits)}
	w := bare(t, s, cfg, append(own, cfg.Routes...))
	w.Accounts, w.Totals = values.New(w.Channels, Accounts, cfg.Accounts), views.New(w.Channels, Totals, cfg.Totals)
	return w
}

// NewBare makes a world without the domain: it has these routes and no others, no accounts and no totals. The Logger
// defaults to one that discards.
func NewBare(t testing.TB, s *storage.Store, cfg handlers.Config, routes ...channel.Route) *World {
	t.Helper()
	return bare(t, s, Config{Handlers: cfg}, routes)
}

func bare(t testing.TB, s *storage.Store, cfg Config, routes []channel.Route) *World {
	t.Helper()
	if cfg.Handlers.Logger == nil {
		cfg.Handlers.Logger = slog.New(slog.DiscardHandler)
	}
	known, err := channel.NewRoutes(routes...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(s, known, "/test")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Channels != nil {
		c = cfg.Channels(c)
	}
	return &World{Store: s, Channels: c, Registry: handlers.NewRegistry(c, cfg.Handlers), t: t}
}

// For returns the same world for another test, such as one of a fuzz target: what fails in it fails that test.
func (w *World) For(t testing.TB) *World {
	other := *w
	other.t = t
	return &other
}

// Decide registers the handler of Add.
func (w *World) Decide() {
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, Account.Add, Added{}, Refused{})
}

// Project registers the view of Added.
func (w *World) Project() { views.Project(w.Registry, w.Totals, Added.Subject, Total.Add) }

// SenderOf returns the sender of a kind of messages.
func SenderOf[M channel.Message](t testing.TB, c *channel.Channels) *channel.Sender[M] {
	t.Helper()
	s, err := channel.NewSender[M](c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Send sends messages of one kind.
func Send[M channel.Message](w *World, messages ...M) {
	w.t.Helper()
	if err := SenderOf[M](w.t, w.Channels).Send(w.t.Context(), messages...); err != nil {
		w.t.Fatal(err)
	}
}

// Balance returns an account's balance.
func (w *World) Balance(key string) int {
	w.t.Helper()
	d, err := w.Accounts.Get(w.t.Context(), key, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return d.Value.Balance
}

// Total returns a view as it is stored.
func (w *World) Total(key string) Total {
	w.t.Helper()
	v, _, err := w.Totals.GetFresh(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// Poisoned lists the poison queue of a queue.
func (w *World) Poisoned(queue string) []poison.Entry {
	w.t.Helper()
	var all []poison.Entry
	for e, err := range poison.At(w.Channels, queue).List(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// Retry sends the only message in the poison queue of a queue back, and returns why it was there.
func (w *World) Retry(queue string) (reason string) {
	w.t.Helper()
	all := w.Poisoned(queue)
	if len(all) != 1 {
		w.t.Fatalf("%d messages in the poison queue, want 1", len(all))
	}
	if err := poison.At(w.Channels, queue).Retry(w.t.Context(), all[0].Key); err != nil {
		w.t.Fatal(err)
	}
	return all[0].Reason
}

// Start runs a worker until stop is called, which returns Run's error. The end of the test stops it, too.
func (w *World) Start(cfg worker.Config) (stop func() error) {
	w.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	wk, err := worker.New(w.Registry, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- wk.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	w.t.Cleanup(func() { _ = stop() })
	return stop
}

// WaitUntilIdle waits until no queue holds a message.
func (w *World) WaitUntilIdle() {
	w.t.Helper()
	Eventually(w.t, func() error {
		for _, q := range w.Channels.Routes().Queues() {
			if n := Queued(w.t, w.Store, q); n > 0 {
				return fmt.Errorf("queue %s holds %d messages", q, n)
			}
		}
		return nil
	})
}

// RunUntilIdle runs a worker until no queue holds a message.
func (w *World) RunUntilIdle(cfg worker.Config) {
	w.t.Helper()
	stop := w.Start(cfg)
	w.WaitUntilIdle()
	if err := stop(); err != nil {
		w.t.Fatal(err)
	}
}
