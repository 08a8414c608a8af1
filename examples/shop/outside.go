package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/millrace-go/millrace/process"
)

// A Bank is somebody else's service. A call that fails may have had its effect. So money moves in two steps: first
// there is a bill, with no effect but its number. Then it is charged. To cancel the bill takes back whatever came of
// that.
type Bank interface {
	Bill(ctx context.Context, key string, cents int) (bill string, err error) // the same key has the same bill
	Charge(ctx context.Context, bill string) (receipt string, err error)      // once; ErrDeclined: there is no money
	Cancel(ctx context.Context, bill string) error                            // no charge stands, or will
}

// ErrDeclined says no for good.
var ErrDeclined = errors.New("declined")

// A Carrier brings parcels, in two steps likewise.
type Carrier interface {
	Label(ctx context.Context, key string, lines []Line) (parcel string, err error)
	Ship(ctx context.Context, parcel string) (tracking string, err error) // once; not a parcel that was recalled
	Recall(ctx context.Context, parcel string) error
}

// shop has the agents of the plan.
type shop struct {
	Bank
	Carrier
}

func (s shop) bill(ctx context.Context, o Order) (string, error) {
	return s.Bill(ctx, process.Key(ctx), o.Cents)
}

func (s shop) unbill(ctx context.Context, _ Order, bill string) error { return s.Cancel(ctx, bill) }

func (s shop) charge(ctx context.Context, o Order) (string, error) {
	receipt, err := s.Charge(ctx, o.Bill)
	if errors.Is(err, ErrDeclined) {
		return "", process.Refuse(err) // no other attempt
	}
	return receipt, err
}

// pack stands for somebody who wraps an item.
func pack(_ context.Context, line Line) (string, error) { return line.Item, nil }

func (s shop) label(ctx context.Context, o Order) (string, error) {
	return s.Label(ctx, process.Key(ctx), o.Lines)
}

func (s shop) recall(ctx context.Context, _ Order, parcel string) error { return s.Recall(ctx, parcel) }

func (s shop) ship(ctx context.Context, o Order) (string, error) { return s.Ship(ctx, o.Parcel) }

// demo stands for a real bank and a real carrier. The bank's line is bad.
type demo struct{}

func (demo) Bill(_ context.Context, key string, cents int) (string, error) {
	if cents > 1000_00 {
		return "", errors.New("nobody has more than a thousand")
	}
	return "bill-" + key[:8], nil
}

func (demo) Charge(_ context.Context, bill string) (string, error) {
	if rand.IntN(2) == 0 {
		return "", errors.New("the line is dead")
	}
	return "receipt for " + bill, nil
}

func (demo) Cancel(context.Context, string) error { return nil }

func (demo) Label(_ context.Context, key string, _ []Line) (string, error) {
	return "parcel-" + key[:8], nil
}

func (demo) Ship(_ context.Context, parcel string) (string, error) { return "track-" + parcel, nil }

func (demo) Recall(context.Context, string) error { return nil }
