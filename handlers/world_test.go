package handlers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/values"
)

// Add asks an account to add; a negative amount beyond its balance is refused.
type Add struct {
	Key    string `json:"key,omitempty"`
	To     string `json:"to"`
	Amount int    `json:"amount"`
}

// Added and Refused are the events of Add.
type (
	Added struct {
		To      string `json:"to"`
		Amount  int    `json:"amount"`
		Balance int    `json:"balance"`
	}
	Refused struct {
		To string `json:"to"`
	}
)

// Mail is a command that a reaction sends.
type Mail struct {
	To string `json:"to"`
}

func (Add) Kind() channel.Kind     { return "test.add.v1" }
func (Added) Kind() channel.Kind   { return "test.added.v1" }
func (Refused) Kind() channel.Kind { return "test.refused.v1" }
func (Mail) Kind() channel.Kind    { return "test.mail.v1" }

func (a Add) MessageID() string { return a.Key }
func (a Add) to() string        { return a.To }
func (a Added) to() string      { return a.To }

// Account is a value object.
type Account struct {
	Balance int `json:"balance"`
}

// Add is pure.
func (a Account) Add(m Add) (Account, []channel.Message, error) {
	if a.Balance+m.Amount < 0 {
		return a, []channel.Message{Refused{To: m.To}}, nil
	}
	a.Balance += m.Amount
	return a, []channel.Message{Added{To: m.To, Amount: m.Amount, Balance: a.Balance}}, nil
}

// Total is a read model.
type Total struct {
	Sum int `json:"sum"`
}

// world is a store with channels, and the handlers that a test registers.
type world struct {
	t        testing.TB
	store    *storage.Store
	channels *channel.Channels
	h        *handlers.Registry
	accounts *values.Collection[Account]
	log      *bytes.Buffer                        // read it only when nothing runs
	claims   map[*handlers.Delivery]storage.Claim // of the messages received
}

func newWorld(t testing.TB, cfg handlers.Config) *world {
	t.Helper()
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "test.db")+"?wake=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return worldOn(t, s, cfg)
}

func worldOn(t testing.TB, s *storage.Store, cfg handlers.Config) *world {
	t.Helper()
	routes, err := channel.NewRoutes(
		channel.Command[Add]("accounts"),
		channel.Command[Mail]("mails"),
		channel.Event[Added]("audits", "totals"),
		channel.Event[Refused]("audits"),
	)
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(s, routes, "/test")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: s, channels: c, log: &bytes.Buffer{}, claims: map[*handlers.Delivery]storage.Claim{}}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	}
	w.h = handlers.NewRegistry(c, cfg)
	w.accounts = values.New(c, "accounts", values.Config[Account]{})
	return w
}

func (w *world) decide() {
	handlers.Decide(w.h, w.accounts, Add.to, Account.Add, Added{}, Refused{})
}

// send sends and returns the IDs in no order.
func send[M channel.Message](w *world, messages ...M) {
	w.t.Helper()
	s, err := channel.SenderOf[M](w.channels)
	if err == nil {
		err = s.Send(w.t.Context(), messages...)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// receive receives the messages of a queue as a worker does, and resolves them.
func (w *world) receive(queue string) []*handlers.Delivery {
	w.t.Helper()
	received, err := w.store.Queue(queue).Receive(w.t.Context(), 32, time.Minute)
	if err != nil {
		w.t.Fatal(err)
	}
	var ds []*handlers.Delivery
	for _, r := range received {
		e, err := channel.Decode(r.Body)
		if err == nil {
			err = w.channels.Fetch(w.t.Context(), &e)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		d, err := w.h.Resolve(queue, &e)
		if err != nil {
			w.t.Fatal(err)
		}
		w.claims[d] = storage.Claim{Queue: queue, Receipt: r.Receipt}
		ds = append(ds, d)
	}
	return ds
}

// handle runs deliveries as a worker does: by group, or alone. It returns the error of each.
func (w *world) handle(ctx context.Context, ds ...*handlers.Delivery) map[*handlers.Delivery]error {
	w.t.Helper()
	result := map[*handlers.Delivery]error{}
	groups := map[handlers.Group][]*handlers.Delivery{}
	finish := func(g handlers.Group, ds []*handlers.Delivery) {
		outs := handlers.Handle(ctx, g, ds, w.commit(ds))
		if len(outs) != len(ds) {
			w.t.Fatalf("got %d outcomes for %d deliveries", len(outs), len(ds))
		}
		for i, d := range ds {
			result[d] = outs[i].Err
			if outs[i] == (handlers.Outcome{}) {
				c := w.claims[d]
				if err := w.store.Queue(c.Queue).Delete(context.WithoutCancel(ctx), []storage.Receipt{c.Receipt}); err != nil {
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
func (w *world) commit(ds []*handlers.Delivery) handlers.Commit {
	return func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []handlers.Ended, error) {
		for _, i := range ends {
			work.Delete = append(work.Delete, w.claims[ds[i]])
		}
		done, err := w.store.Commit(ctx, work)
		ended := make([]handlers.Ended, len(ends))
		for i, claim := range work.Delete {
			ended[i] = handlers.Deleted
			if slices.Contains(done.Stale, claim) {
				ended[i] = handlers.Stale
			}
		}
		return done.ETag, ended, err
	}
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

// bodies returns the bodies of all messages that are ready in a queue, sorted.
func (w *world) bodies(queue string) []string {
	w.t.Helper()
	ds, err := w.store.Queue(queue).Receive(w.t.Context(), 32, time.Minute)
	if err != nil {
		w.t.Fatal(err)
	}
	var bodies []string
	for _, d := range ds {
		e, err := channel.Decode(d.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		bodies = append(bodies, string(e.Data))
	}
	slices.Sort(bodies)
	return bodies
}

func (w *world) left(queue string) int64 {
	w.t.Helper()
	st, err := w.store.Queue(queue).Stats(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return st.Ready + st.Delayed + st.InFlight
}

func (w *world) balance(key string) int {
	w.t.Helper()
	s, err := w.accounts.Get(w.t.Context(), key, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Value.Balance
}

// envelope makes an envelope as a worker receives it.
func envelope(id string, kind channel.Kind, body string) *channel.Envelope {
	return &channel.Envelope{ID: id, Source: "/test", Kind: kind, Data: []byte(body)}
}
