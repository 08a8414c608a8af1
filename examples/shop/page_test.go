package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/values"
)

// seller is the shop with the plan of docs/processes.md. The parts between marks stand there.
type seller struct{ shop }

// docs/processes.md begins
func (s seller) fulfil(p *process.Plan[Order]) {
	reserve := process.Ask(p, "reserve", Order.Reserve, Order.Held) // a command; an event answers
	process.Refused(reserve, Order.NoStock)                         // so does this one, and the step fails
	process.UndoAsk(reserve, Order.Release)
	process.Do(p, "bill", s.bill, Order.Billed).Undo(s.unbill) // an agent: a function with effects
	process.Do(p, "charge", s.charge, Order.Charged).Within(10 * time.Minute)
	process.Each(p, "pack", Order.Items, pack, Order.LinePacked)     // an agent for each item
	process.Wait(p, "pickup", Order.PickedUp).Within(48 * time.Hour) // a signal
	process.Do(p, "ship", s.ship, Order.Shipped).By("carrier")       // agents with a queue of their own
}

// docs/processes.md ends

// docs/processes.md begins
func (s seller) register(h *handlers.Registry) error { // in the worker; process.Route("fulfil", "carrier") is among the routes
	return process.Register(h, "fulfil", process.Version(1, s.fulfil))
}

func sell(ctx context.Context, channels *channel.Channels, order Order) error { // anywhere
	orders := process.Open[Order](channels, "fulfil")
	if err := orders.Start(ctx, "o17", order); err != nil { // twice is once
		return err
	}
	return orders.Signal(ctx, "o17", PickedUp{Courier: "Ada"}) // may be early
}

func takeBack(ctx context.Context, channels *channel.Channels) error {
	return process.Open[Order](channels, "fulfil").Cancel(ctx, "o17", "ada", "found it cheaper")
}

// docs/processes.md ends

// badLine is the bank of the demonstration, whose line is dead for the first three charges and then works.
type badLine struct {
	demo
	charges atomic.Int64
}

func (b *badLine) Charge(_ context.Context, bill string) (string, error) {
	if b.charges.Add(1) <= 3 {
		return "", errors.New("the line is dead")
	}
	return "receipt for " + bill, nil
}

// The plan of the page ships an order, and a cancel that comes later changes nothing.
func TestPageOfProcesses(t *testing.T) {
	t.Parallel()
	p := millracetest.Program{Routes: routes, Register: func(h *handlers.Registry) error {
		stock := values.New(h.Channels(), "stock", values.Config[Stock]{})
		handlers.Decide(h, stock, func(Reserve) string { return warehouse }, Stock.Reserve, Held{}, NoStock{})
		handlers.Decide(h, stock, func(Release) string { return warehouse }, Stock.Release)
		return seller{shop{&badLine{}, demo{}}}.register(h)
	}}
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		if err := sell(t.Context(), app.Channels(), order("o17", 1)); err != nil {
			t.Fatal(err)
		}
		app.Advance(time.Minute) // the bank's line is dead at first
		app.Drain()
		if err := takeBack(t.Context(), app.Channels()); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		got, err := process.Open[Order](app.Channels(), "fulfil").Get(t.Context(), "o17")
		if err != nil || got.Status != process.Completed || got.State.Courier != "Ada" || got.State.Tracking == "" {
			t.Errorf("got %+v, error %v; want the order shipped", got, err)
		}
	})
}
