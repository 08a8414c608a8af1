package main

import (
	"errors"

	"github.com/millrace-go/millrace/channel"
)

// ID names the order that a message is about. All messages but those for the stock have it as their key.
type ID struct {
	Order string `json:"order"`
}

// Key returns the order's ID.
func (id ID) Key() string { return id.Order }

// Place orders goods.
type Place struct {
	ID
	Item  string `json:"item"`
	Count int    `json:"count"`
	Cents int    `json:"cents"` // price of all of it
}

// Reserve asks the stock to hold goods for an order. It answers by Held.
type Reserve struct {
	ID
	Item  string `json:"item"`
	Count int    `json:"count"`
}

// Release gives goods that were held back to the stock.
type Release struct {
	ID
	Item string `json:"item"`
}

// Sold says to the stock that goods that were held are gone.
type Sold struct {
	ID
	Item string `json:"item"`
}

// Held says whether the stock holds the goods.
type Held struct {
	ID
	OK bool `json:"ok"`
}

// Charge asks the bank for the money. It answers by Paid.
type Charge struct {
	ID
	Cents int `json:"cents"`
}

// Refund gives the money back, if it was taken.
type Refund struct {
	ID
	Cents int `json:"cents"`
}

// Paid says whether the bank has the money.
type Paid struct {
	ID
	OK bool `json:"ok"`
}

// Ship asks the carrier to bring the goods. It answers by Shipped.
type Ship struct {
	ID
	Item  string `json:"item"`
	Count int    `json:"count"`
}

// Recall brings goods back, if they were sent.
type Recall struct{ ID }

// Shipped says whether the goods are under way.
type Shipped struct {
	ID
	OK bool `json:"ok"`
}

// TimeUp says that an order has had its time.
type TimeUp struct{ ID }

// Changed says that an order is in another state.
type Changed struct {
	ID
	State State `json:"state"`
}

func (Place) Kind() channel.Kind   { return "shop.place.v1" }
func (Reserve) Kind() channel.Kind { return "shop.reserve.v1" }
func (Release) Kind() channel.Kind { return "shop.release.v1" }
func (Sold) Kind() channel.Kind    { return "shop.sold.v1" }
func (Held) Kind() channel.Kind    { return "shop.held.v1" }
func (Charge) Kind() channel.Kind  { return "shop.charge.v1" }
func (Refund) Kind() channel.Kind  { return "shop.refund.v1" }
func (Paid) Kind() channel.Kind    { return "shop.paid.v1" }
func (Ship) Kind() channel.Kind    { return "shop.ship.v1" }
func (Recall) Kind() channel.Kind  { return "shop.recall.v1" }
func (Shipped) Kind() channel.Kind { return "shop.shipped.v1" }
func (TimeUp) Kind() channel.Kind  { return "shop.timeup.v1" }
func (Changed) Kind() channel.Kind { return "shop.changed.v1" }

// MessageID makes an order that is placed twice one order.
func (p Place) MessageID() string { return "place-" + p.Order }

// Check refuses an order of nothing.
func (p Place) Check() error {
	if p.Order == "" || p.Item == "" || p.Count < 1 || p.Cents < 1 {
		return errors.New("an order needs an ID, an item, a count and a price")
	}
	return nil
}
