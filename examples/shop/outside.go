package main

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
)

// A Bank is somebody else's service. It knows each order by its ID, so that a repeat has no second effect. A charge
// that comes after its refund is void: nobody knows in which order two calls arrive.
type Bank interface {
	Charge(ctx context.Context, order string, cents int) error // ErrDeclined: no money
	Refund(ctx context.Context, order string, cents int) error // nothing was charged: no error
}

// ErrDeclined says that the account has no money.
var ErrDeclined = errors.New("declined")

// A Carrier brings goods. It knows each order by its ID, too, and ships nothing that was recalled.
type Carrier interface {
	Ship(ctx context.Context, order, item string, count int) error
	Recall(ctx context.Context, order string) error
}

// outside are the reactions that call services.
type outside struct {
	Bank
	Carrier
}

func (o outside) charge(ctx context.Context, c Charge) error {
	err := o.Bank.Charge(ctx, c.Order, c.Cents)
	if err != nil && !errors.Is(err, ErrDeclined) {
		return err // tried again
	}
	return channel.Send(ctx, Paid{c.ID, err == nil})
}

func (o outside) refund(ctx context.Context, c Refund) error {
	return o.Bank.Refund(ctx, c.Order, c.Cents)
}

func (o outside) ship(ctx context.Context, c Ship) error {
	if err := o.Carrier.Ship(ctx, c.Order, c.Item, c.Count); err != nil {
		return err
	}
	return channel.Send(ctx, Shipped{c.ID, true})
}

func (o outside) recall(ctx context.Context, c Recall) error { return o.Carrier.Recall(ctx, c.Order) }

// unpaid gives up on a charge. Nobody knows whether the bank has taken the money, so it is given back.
func unpaid(c Charge, _ handlers.Poisoned) messages { return messages{Paid{c.ID, false}, Refund(c)} }

// unsent gives up on a delivery, likewise.
func unsent(c Ship, _ handlers.Poisoned) messages {
	return messages{Shipped{c.ID, false}, Recall{c.ID}}
}

// demoBank stands for a real bank. Nobody has more than a thousand.
type demoBank struct{}

func (demoBank) Charge(_ context.Context, _ string, cents int) error {
	if cents > 1000_00 {
		return ErrDeclined
	}
	return nil
}

func (demoBank) Refund(context.Context, string, int) error { return nil }

// demoCarrier stands for a real carrier.
type demoCarrier struct{}

func (demoCarrier) Ship(context.Context, string, string, int) error { return nil }

func (demoCarrier) Recall(context.Context, string) error { return nil }
