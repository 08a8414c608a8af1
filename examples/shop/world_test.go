package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/values"
)

// world stands for the bank and the carrier. Both know keys and numbers, as they do.
type world struct {
	mu     sync.Mutex
	byKey  map[string]*effect // bills and parcels
	byName map[string]*effect

	before func(ctx context.Context, call, order string) error // what a charge, or a shipment, answers before its effect
	after  func(ctx context.Context, call, order string) error // and after it
}

// effect is a bill or a parcel.
type effect struct {
	name, order string
	had         int  // how often it has had its effect; at most once is right
	stands      bool // it has it now
	over        bool // it is cancelled, and can't have it any more
}

func newWorld() *world {
	nothing := func(context.Context, string, string) error { return nil }
	return &world{byKey: map[string]*effect{}, byName: map[string]*effect{}, before: nothing, after: nothing}
}

// prepare returns the number of a bill or a parcel.
func (w *world) prepare(ctx context.Context, what, key string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey[key] == nil {
		x := &effect{name: fmt.Sprint(what, len(w.byKey)), order: process.ID(ctx)}
		w.byKey[key], w.byName[x.name] = x, x
	}
	return w.byKey[key].name
}

// act lets a bill or a parcel have its effect, once.
func (w *world) act(ctx context.Context, call, name string) (string, error) {
	order := process.ID(ctx)
	if err := w.before(ctx, call, order); err != nil {
		return "", err
	}
	w.mu.Lock()
	x := w.byName[name]
	over := x.over
	if !over && !x.stands {
		x.had, x.stands = x.had+1, true
	}
	w.mu.Unlock()
	if over {
		return "", process.Refuse(errors.New(name + " is cancelled"))
	}
	return "receipt of " + name, w.after(ctx, call, order)
}

func (w *world) cancel(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byName[name].stands, w.byName[name].over = false, true
}

func (w *world) Bill(ctx context.Context, key string, _ int) (string, error) {
	return w.prepare(ctx, "bill", key), nil
}

func (w *world) Charge(ctx context.Context, bill string) (string, error) {
	return w.act(ctx, "charge", bill)
}

func (w *world) Cancel(_ context.Context, bill string) error { w.cancel(bill); return nil }

func (w *world) Label(ctx context.Context, key string, _ []Line) (string, error) {
	return w.prepare(ctx, "parcel", key), nil
}

func (w *world) Ship(ctx context.Context, parcel string) (string, error) {
	return w.act(ctx, "ship", parcel)
}

func (w *world) Recall(_ context.Context, parcel string) error { w.cancel(parcel); return nil }

func (w *world) program() millracetest.Program {
	return millracetest.Program{Routes: routes, Register: shop{w, w}.register}
}

// check reports an order whose money, goods and status don't agree, and goods that are lost.
func (w *world) check(t *testing.T, c *channel.Channels, orders ...Order) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := 0
	for _, o := range orders {
		s, err := process.Open[Order](c, "fulfil").Get(t.Context(), o.Order)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if s.Status == process.Completed {
			want = 1
			taken += o.Lines[0].Count
		}
		if !s.Final() {
			t.Errorf("order %s is %q: %s", o.Order, s.Status, s.Error)
		}
		for _, what := range []string{"bill", "parcel"} {
			if n := w.standing(what, o.Order); n != want {
				t.Errorf("order %s is %q, and %d of its %ss stand; want %d", o.Order, s.Status, n, what, want)
			}
		}
	}
	for _, x := range w.byName {
		if x.had > 1 {
			t.Errorf("%s of order %s had its effect %d times; want once", x.name, x.order, x.had)
		}
	}
	stock := millracetest.Value(t, values.New(c, "stock", values.Config[Stock]{}), warehouse)
	if stock.Taken["teapot"] != taken || len(stock.Held) > 0 {
		t.Errorf("the stock: got %+v; want %d teapots taken and nothing held", stock, taken)
	}
}

// standing counts the bills, or parcels, of an order that have their effect now.
func (w *world) standing(what, order string) (n int) {
	for name, x := range w.byName {
		if x.stands && x.order == order && strings.HasPrefix(name, what) {
			n++
		}
	}
	return n
}

func order(id string, count int) Order {
	return Order{ID: ID{id}, Basket: Basket{Lines: []Line{{"teapot", count}, {"cup", 1}}, Cents: 4900 * count}}
}

// run runs a test of the shop with an order.
func (w *world) run(t *testing.T, test func(t *testing.T, app *millracetest.App, orders *process.Instances[Order])) {
	t.Helper()
	millracetest.Run(t, w.program(), func(t *testing.T, app *millracetest.App) {
		test(t, app, process.Open[Order](app.Channels(), "fulfil"))
	})
}

func start(t *testing.T, orders *process.Instances[Order], o Order) {
	t.Helper()
	if err := orders.StartNew(t.Context(), o.Order, o); err != nil {
		t.Fatal(err)
	}
}

func pickUp(t *testing.T, orders *process.Instances[Order], o Order) {
	t.Helper()
	if err := orders.Signal(t.Context(), o.Order, PickedUp{"Ada"}); err != nil {
		t.Fatal(err)
	}
}

func site(t *testing.T, c *channel.Channels) *host.App {
	t.Helper()
	return &host.App{Channels: c, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}
