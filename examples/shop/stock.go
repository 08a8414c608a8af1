package main

import "maps"

// onStock is how much of an item there is at first.
const onStock = 5

// Stock is the value object of one item. Left and all that is held are always all there is.
type Stock struct {
	Left int            `json:"left"`
	Held map[string]int `json:"held,omitempty"` // by order; 0: released before it was reserved
}

func (c Reserve) item() string { return c.Item }
func (c Release) item() string { return c.Item }

// Reserve holds goods for an order, if there are enough.
func (s Stock) Reserve(c Reserve) (Stock, messages, error) {
	if _, known := s.Held[c.Order]; known || c.Count > s.Left {
		return s, messages{Held{c.ID, false}}, nil
	}
	s.hold(c.Order, c.Count)
	return s, messages{Held{c.ID, true}}, nil
}

// Release gives an order's goods back. Queues promise no order: a release that overtakes its reservation refuses it.
func (s Stock) Release(c Release) (Stock, messages, error) {
	s.hold(c.Order, 0)
	return s, nil, nil
}

func (s *Stock) hold(order string, count int) {
	s.Left += s.Held[order] - count
	held := maps.Clone(s.Held) // the value that was given must not change
	if held == nil {
		held = map[string]int{}
	}
	held[order] = count
	s.Held = held
}
