package lanes

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/millrace-go/millrace/storage"
)

// MostWeight is the largest weight of a priority.
const MostWeight = 100

// Weights are the parts of the turns that messages of the priorities get while all of them wait, 1 to [MostWeight]. A
// zero is the default.
type Weights struct {
	High   int `json:"high,omitzero"`   // Defaults to 8.
	Normal int `json:"normal,omitzero"` // Defaults to 4.
	Low    int `json:"low,omitzero"`    // Defaults to 1.
}

// Check reports all that is wrong with weights.
func (w Weights) Check() error {
	var faults []error
	for _, x := range []struct {
		name   string
		weight int
	}{{"high", w.High}, {"normal", w.Normal}, {"low", w.Low}} {
		if x.weight < 0 || x.weight > MostWeight {
			faults = append(faults, fmt.Errorf("%w: weight %s is %d; want 1 to %d, or 0 for the default", storage.ErrInvalid, x.name, x.weight, MostWeight))
		}
	}
	return errors.Join(faults...)
}

// of returns the weight of a priority.
func (w Weights) of(p Priority) float64 {
	switch p {
	case High:
		return float64(cmp.Or(w.High, 8))
	case Low:
		return float64(cmp.Or(w.Low, 1))
	}
	return float64(cmp.Or(w.Normal, 4))
}

// Weigh puts other weights in force for a queue with priorities, from the next Receive of this process on. s is a store
// of [Over]; other stores over the same inner one keep theirs. An error says what is wrong, and changes nothing.
func Weigh(s *storage.Store, queue string, w Weights) error {
	err := w.Check()
	over, ok := s.Driver().(*store)
	switch {
	case err != nil:
	case !ok || over.queues[queue] == nil || !over.queues[queue].placer.division.Priorities:
		err = fmt.Errorf("%w: the queue has no priorities, so it can't have weights", storage.ErrInvalid)
	default:
		r := over.queues[queue].roster
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turn.weigh(w)
		return nil
	}
	return &storage.Error{Op: "weigh", Resource: "queue " + storage.Quote(queue), Err: err}
}

// weigh puts other weights in force. If a class has paid more than the others, the difference stays the same time.
func (t *turns) weigh(w Weights) {
	least := math.Inf(1)
	for _, c := range t.classes {
		if c.in {
			least = min(least, c.paid)
		}
	}
	for _, c := range t.classes {
		if c.aside { // its weight follows from the others
			continue
		}
		next := w.of(c.priority)
		if c.paid > least {
			c.paid = least + (c.paid-least)*c.weight/next
		}
		c.weight = next
	}
}
