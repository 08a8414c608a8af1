package main

import (
	"time"

	"github.com/millrace-go/millrace/channel"
)

// timeLimit is how long the stock and the bank may take together.
const timeLimit = 15 * time.Minute

// State is where an order stands.
type State string

// The states of an order. The last five are final.
const (
	Reserving State = "reserving"
	Charging  State = "charging"
	Shipping  State = "shipping"
	Done      State = "done"
	NoStock   State = "out of stock"
	NoMoney   State = "not paid"
	TooLate   State = "too late"
	NoCarrier State = "not delivered"
)

// Order is the value object of one order. It asks one party after the other. If one says no, or the time is up, it
// takes back what the others have done. An answer that comes too late is taken back, too.
type Order struct {
	State State  `json:"state"`
	Item  string `json:"item"`
	Count int    `json:"count"`
	Cents int    `json:"cents"`
}

type messages = []channel.Message

// to moves the order to a state, and emits that and messages of the step.
func (o Order) to(s State, id ID, step ...channel.Message) (Order, messages, error) {
	o.State = s
	return o, append(step, Changed{id, s}), nil
}

// Place begins the order, and sets the time limit.
func (o Order) Place(c Place) (Order, messages, error) {
	if o.State != "" {
		return o, nil, nil
	}
	o.Item, o.Count, o.Cents = c.Item, c.Count, c.Cents
	return o.to(Reserving, c.ID, Reserve{c.ID, c.Item, c.Count}, channel.After(timeLimit, TimeUp{c.ID}))
}

// Held takes the stock's answer.
func (o Order) Held(e Held) (Order, messages, error) {
	switch {
	case o.State == Reserving && e.OK:
		return o.to(Charging, e.ID, Charge{e.ID, o.Cents})
	case o.State == Reserving:
		return o.to(NoStock, e.ID)
	case o.State == TooLate && e.OK:
		return o, messages{Release{e.ID, o.Item}}, nil
	}
	return o, nil, nil
}

// Paid takes the bank's answer.
func (o Order) Paid(e Paid) (Order, messages, error) {
	switch {
	case o.State == Charging && e.OK:
		return o.to(Shipping, e.ID, Ship{e.ID, o.Item, o.Count})
	case o.State == Charging:
		return o.to(NoMoney, e.ID, Release{e.ID, o.Item})
	case e.OK && (o.State == TooLate || o.State == NoMoney):
		return o, messages{Refund{e.ID, o.Cents}}, nil
	}
	return o, nil, nil
}

// Shipped takes the carrier's answer.
func (o Order) Shipped(e Shipped) (Order, messages, error) {
	switch {
	case o.State == Shipping && e.OK:
		return o.to(Done, e.ID, Sold{e.ID, o.Item})
	case o.State == Shipping:
		return o.to(NoCarrier, e.ID, Release{e.ID, o.Item}, Refund{e.ID, o.Cents})
	}
	return o, nil, nil
}

// TimeUp ends an order that isn't paid.
func (o Order) TimeUp(c TimeUp) (Order, messages, error) {
	switch o.State {
	case Reserving:
		return o.to(TooLate, c.ID)
	case Charging:
		return o.to(TooLate, c.ID, Release{c.ID, o.Item})
	}
	return o, nil, nil
}

// Progress is the view of one order.
type Progress struct {
	State State `json:"state"`
}

// Change folds a Changed.
func (Progress) Change(e Changed) Progress { return Progress{State: e.State} }
