package main

import "errors"

// Line is an item, and how many of it.
type Line struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
}

// Basket is what a customer orders.
type Basket struct {
	Lines []Line `json:"lines"`
	Cents int    `json:"cents"` // price of all of it
}

// Check refuses an order of nothing.
func (b Basket) Check() error {
	for _, line := range b.Lines {
		if line.Item == "" || line.Count < 1 {
			return errors.New("a line needs an item and a count")
		}
	}
	if len(b.Lines) == 0 || b.Cents < 1 {
		return errors.New("an order needs lines and a price")
	}
	return nil
}

// Order is the state of the plan: what the customer wants, and what has been done. Its methods are pure.
type Order struct {
	ID
	Basket
	Missing  string `json:"missing,omitempty"`  // an item that the stock doesn't have
	Bill     string `json:"bill,omitempty"`     // the bank's number
	Receipt  string `json:"receipt,omitempty"`  // likewise
	Packed   int    `json:"packed,omitempty"`   // lines
	Parcel   string `json:"parcel,omitempty"`   // the carrier's number
	Courier  string `json:"courier,omitempty"`  // who has picked it up
	Tracking string `json:"tracking,omitempty"` // the carrier's, too
}

// These are the commands to the stock.

func (o Order) Reserve() Reserve { return Reserve{o.ID, o.Lines} }
func (o Order) Release() Release { return Release{o.ID} }
func (o Order) Sell() Sell       { return Sell{o.ID} }

// These take answers and results into the order.

func (o Order) Held(Held) Order               { return o }
func (o Order) NoStock(e NoStock) Order       { o.Missing = e.Item; return o }
func (o Order) Billed(bill string) Order      { o.Bill = bill; return o }
func (o Order) Charged(receipt string) Order  { o.Receipt = receipt; return o }
func (o Order) Items() []Line                 { return o.Lines }
func (o Order) LinePacked(string) Order       { o.Packed++; return o }
func (o Order) Labelled(parcel string) Order  { o.Parcel = parcel; return o }
func (o Order) PickedUp(e PickedUp) Order     { o.Courier = e.Courier; return o }
func (o Order) Shipped(tracking string) Order { o.Tracking = tracking; return o }
func (o Order) Sold(Sold) Order               { return o }
