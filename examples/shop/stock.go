package main

import "maps"

// onStock is how much of an item there is at first.
const onStock = 5

// Stock is the value object of one item.
type Stock struct {
	Left int            `json:"left"`
	Held map[string]int `json:"held,omitempty"` // by order, until it is sold or released
}

func (c Reserve) item() string { return c.Item }
func (c Release) item() string { return c.Item }
func (c Sold) item() string    { return c.Item }

// Reserve holds goods for an order, if there are enough.
func (s Stock) Reserve(c Reserve) (Stock, messages, error) {
	if c.Count > s.Left {
		return s, messages{Held{c.ID, false}}, nil
	}
	s.Left -= c.Count
	s.hold(c.Order, c.Count)
	return s, messages{Held{c.ID, true}}, nil
}

// Release gives an order's goods back.
func (s Stock) Release(c Release) (Stock, messages, error) {
	s.Left += s.Held[c.Order]
	s.hold(c.Order, 0)
	return s, nil, nil
}

// Sold lets an order's goods go.
func (s Stock) Sold(c Sold) (Stock, messages, error) {
	s.hold(c.Order, 0)
	return s, nil, nil
}

// hold changes how much is held for an order, in a map of its own: the one that was given must not change.
func (s *Stock) hold(order string, count int) {
	held := maps.Clone(s.Held)
	switch {
	case count == 0:
		delete(held, order)
	case held == nil:
		held = map[string]int{order: count}
	default:
		held[order] = count
	}
	s.Held = held
}
