package main

import "github.com/millrace-go/millrace/channel"

// ID names the order that a message is about.
type ID struct {
	Order string `json:"order"`
}

// Reserve asks the stock to hold the goods of an order. It answers by Held or NoStock.
type Reserve struct {
	ID
	Lines []Line `json:"lines"`
}

// Release gives what is held for an order back to the stock.
type Release struct{ ID }

// Sell says to the stock that what is held for an order is gone. It answers by Sold.
type Sell struct{ ID }

// Held says that the stock holds the goods.
type Held struct{ ID }

// NoStock says that the stock doesn't have them.
type NoStock struct {
	ID
	Item string `json:"item"` // the first that is missing
}

// Sold says that the goods are gone.
type Sold struct{ ID }

// PickedUp is the signal of a courier who has the parcel in hand.
type PickedUp struct {
	Courier string `json:"courier"`
}

func (Reserve) Kind() channel.Kind  { return "shop.reserve.v1" }
func (Release) Kind() channel.Kind  { return "shop.release.v1" }
func (Sell) Kind() channel.Kind     { return "shop.sell.v1" }
func (Held) Kind() channel.Kind     { return "shop.held.v1" }
func (NoStock) Kind() channel.Kind  { return "shop.nostock.v1" }
func (Sold) Kind() channel.Kind     { return "shop.sold.v1" }
func (PickedUp) Kind() channel.Kind { return "shop.pickedup.v1" }
