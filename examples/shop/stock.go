package main

import (
	"maps"

	"github.com/millrace-go/millrace/channel"
)

// onStock is how much of each item there is at first.
const onStock = 5

// warehouse is the key of the only stock.
const warehouse = "warehouse"

// Stock is a value object: what a warehouse has given away, and what it holds.
type Stock struct {
	Taken map[string]int    `json:"taken,omitempty"` // by item: sold or held
	Held  map[string][]Line `json:"held,omitempty"`  // by order, until it is sold or released
}

type messages = []channel.Message

// Reserve holds goods for an order: all or nothing.
func (s Stock) Reserve(c Reserve) (Stock, messages, error) {
	for _, line := range c.Lines {
		if s.Taken[line.Item]+line.Count > onStock {
			return s, messages{NoStock{c.ID, line.Item}}, nil
		}
	}
	return s.take(c.Lines, +1).hold(c.Order, c.Lines), messages{Held{c.ID}}, nil
}

// Release gives an order's goods back.
func (s Stock) Release(c Release) (Stock, messages, error) {
	return s.take(s.Held[c.Order], -1).hold(c.Order, nil), nil, nil
}

// Sell lets an order's goods go.
func (s Stock) Sell(c Sell) (Stock, messages, error) {
	return s.hold(c.Order, nil), messages{Sold(c)}, nil
}

// take takes goods, or gives them back, in a map of its own: the one that was given must not change.
func (s Stock) take(lines []Line, sign int) Stock {
	taken := map[string]int{}
	maps.Copy(taken, s.Taken)
	for _, line := range lines {
		taken[line.Item] += sign * line.Count
	}
	s.Taken = taken
	return s
}

// hold notes what is held for an order, likewise.
func (s Stock) hold(order string, lines []Line) Stock {
	held := map[string][]Line{}
	maps.Copy(held, s.Held)
	if held[order] = lines; lines == nil {
		delete(held, order)
	}
	s.Held = held
	return s
}
