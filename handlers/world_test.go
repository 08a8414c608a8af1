package handlers_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/tracing"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// The domain is the one of worldtest, and mails.

type (
	Add     = worldtest.Add
	Added   = worldtest.Added
	Refused = worldtest.Refused
	Account = worldtest.Account
	Total   = worldtest.Total
)

// Mail is a command that a reaction sends.
type Mail struct {
	To string `json:"to"`
}

// Kind is the name on the wire.
func (Mail) Kind() channel.Kind { return "test.mail.v1" }

// world is the tests' world with a log.
type world struct {
	*worldtest.World
	t      testing.TB
	log    *worldtest.Log
	claims map[*handlers.Delivery]storage.Claim // of the messages received
}

func newWorld(t testing.TB, cfg handlers.Config) *world {
	t.Helper()
	return worldOn(t, worldtest.OpenStore(t, worldtest.Virtual), cfg)
}

func worldOn(t testing.TB, s *storage.Store, cfg handlers.Config) *world {
	t.Helper()
	w := &world{t: t, log: worldtest.NewLog(), claims: map[*handlers.Delivery]storage.Claim{}}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(w.log)
	}
	w.World = worldtest.New(t, s, worldtest.Config{Routes: []channel.Route{channel.Command[Mail]("mails")}, Handlers: cfg})
	return w
}

// receive receives the messages of a queue as a worker does, and resolves them.
func (w *world) receive(queue string) []*handlers.Delivery {
	w.t.Helper()
	received, err := w.Store.Queue(queue).Receive(w.t.Context(), 32, time.Minute)
	if err != nil {
		w.t.Fatal(err)
	}
	var ds []*handlers.Delivery
	for _, r := range received {
		e, err := wire.Decode(r.Body)
		if err == nil {
			err = w.Channels.Outbox().FetchBody(w.t.Context(), &e)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		d, err := w.Registry.Inside().Handlers.Resolve(queue, &e)
		if err != nil {
			w.t.Fatal(err)
		}
		d.TraceTo(w.Channels.Tracer().Process(&e, tracing.Delivery{Queue: queue}))
		w.claims[d] = storage.Claim{Queue: queue, Receipt: r.Receipt}
		ds = append(ds, d)
	}
	return ds
}

// handle runs deliveries as a worker does: by group, or alone. It returns the error of each.
func (w *world) handle(ctx context.Context, ds ...*handlers.Delivery) map[*handlers.Delivery]error {
	w.t.Helper()
	result := map[*handlers.Delivery]error{}
	groups := map[handling.Group][]*handlers.Delivery{}
	finish := func(g handling.Group, ds []*handlers.Delivery) {
		outs := handling.Handle(ctx, g, ds, w.commit(ds))
		if len(outs) != len(ds) {
			w.t.Fatalf("got %d outcomes for %d deliveries", len(outs), len(ds))
		}
		for i, d := range ds {
			result[d] = outs[i].Err
			if outs[i] == (handling.Outcome{}) {
				c := w.claims[d]
				if err := w.Store.Queue(c.Queue).Delete(context.WithoutCancel(ctx), []storage.Receipt{c.Receipt}); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
	for _, d := range ds {
		if g, ok := d.Group(); ok {
			groups[g] = append(groups[g], d)
		} else {
			finish(g, []*handlers.Delivery{d})
		}
	}
	for g, ds := range groups {
		finish(g, ds)
	}
	return result
}

// commit returns the Commit that deletes these messages.
func (w *world) commit(ds []*handlers.Delivery) handling.Commit {
	claims := make([]storage.Claim, len(ds))
	for i, d := range ds {
		claims[i] = w.claims[d]
	}
	return worldtest.Commit(w.Store, claims)
}

// drain handles all messages of a queue and returns their errors.
func (w *world) drain(queue string) (errs []error) {
	w.t.Helper()
	for _, err := range w.handle(w.t.Context(), w.receive(queue)...) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (w *world) mustDrain(queue string) {
	w.t.Helper()
	if err := errors.Join(w.drain(queue)...); err != nil {
		w.t.Fatal(err)
	}
}

// one takes the single message of a queue and handles it.
func (w *world) one(ctx context.Context, queue string) error {
	w.t.Helper()
	ds := w.receive(queue)
	if len(ds) != 1 {
		w.t.Fatalf("got %d messages in queue %s, want 1", len(ds), queue)
	}
	return w.handle(ctx, ds[0])[ds[0]]
}

// envelope makes an envelope as a worker receives it.
func envelope(id string, kind channel.Kind, body string) *channel.Envelope {
	return &channel.Envelope{ID: id, Source: "/test", Kind: kind, Data: []byte(body)}
}

// anyKey makes a function of a message one that Fold takes.
func anyKey[M channel.Message](key func(M) string) func(*channel.Envelope, M) (string, bool) {
	return func(_ *channel.Envelope, m M) (string, bool) { return key(m), true }
}
