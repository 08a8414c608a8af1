package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// The tests' domain: accounts that are added to.

type add struct {
	ID      string `json:"id,omitempty"`
	Account string `json:"account"`
	N       int    `json:"n"`
	Note    string `json:"note,omitempty"`
}

func (add) Kind() channel.Kind  { return "test.add.v1" }
func (a add) MessageID() string { return a.ID }

type added struct {
	Account string `json:"account"`
	N       int    `json:"n"`
	Note    string `json:"note,omitempty"`
}

func (added) Kind() channel.Kind { return "test.added.v1" }

type account struct {
	Sum   int `json:"sum"`
	Count int `json:"count"`
}

// world is a store with routes, a registry and a sender, ready for handlers.
type world struct {
	store    *storage.Store
	channels *channel.Channels
	registry *handlers.Registry
	accounts *values.Collection[account]
	totals   *views.View[account]
	send     *channel.Sender[add]
	reacted  atomic.Int64
	folded   atomic.Int64 // folded into totals; more when a fold is repeated
	decide   func(account, add) (account, []channel.Message, error)
	react    func(context.Context, added) error
}

func newStore(t testing.TB) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// newWorld makes a world. Its events go to the groups given, or to totals and reactions.
func newWorld(t testing.TB, store *storage.Store, groups ...string) *world {
	t.Helper()
	if len(groups) == 0 {
		groups = []string{"totals", "reactions"}
	}
	routes, err := channel.NewRoutes(channel.Command[add]("commands"), channel.Event[added](groups...))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: store}
	if w.channels, err = channel.New(store, routes, "/test"); err != nil {
		t.Fatal(err)
	}
	if w.send, err = channel.NewSender[add](w.channels); err != nil {
		t.Fatal(err)
	}
	w.decide = func(a account, c add) (account, []channel.Message, error) {
		return account{Sum: a.Sum + c.N, Count: a.Count + 1}, []channel.Message{added{Account: c.Account, N: c.N, Note: c.Note}}, nil
	}
	w.react = func(context.Context, added) error { w.reacted.Add(1); return nil }
	w.accounts = values.New(w.channels, "accounts", values.Config[account]{})
	w.totals = views.New(w.channels, "totals", views.Config[account]{})
	w.registry = handlers.NewRegistry(w.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	handlers.Decide(w.registry, w.accounts, func(c add) string { return c.Account },
		func(a account, c add) (account, []channel.Message, error) { return w.decide(a, c) }, added{})
	views.Project(w.registry, w.totals, func(e added) string { return e.Account },
		func(a account, e added) account {
			w.folded.Add(1)
			return account{Sum: a.Sum + e.N, Count: a.Count + 1}
		})
	if slices.Contains(groups, "reactions") {
		handlers.React(w.registry, "reactions", func(ctx context.Context, e added) error { return w.react(ctx, e) })
	}
	return w
}

// start runs a worker until stop is called, which returns what Run returned.
func (w *world) start(t testing.TB, cfg worker.Config) (stop func() error) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	wk, err := worker.New(w.registry, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- wk.Run(ctx) }()
	var once atomic.Bool
	var result error
	stop = func() error {
		cancel()
		if once.CompareAndSwap(false, true) {
			result = <-ended
		}
		return result
	}
	t.Cleanup(func() { stop() })
	return stop
}

// drained waits until no queue holds a message.
func (w *world) drained(t testing.TB) {
	t.Helper()
	eventually(t, func() error {
		for _, q := range w.channels.Routes().Queues() {
			s, err := w.store.Queue(q).Stats(t.Context())
			if err != nil {
				return err
			}
			if s.Ready+s.InFlight+s.Delayed > 0 {
				return fmt.Errorf("queue %s: %+v", q, s)
			}
		}
		return nil
	})
}

// eventually waits until check returns nil.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %v", err)
		}
	}
}
