package reservations

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/channel"
)

// maxEarly bounds how many early cancellations a date remembers: those that came before their reservation, or after
// its refusal. Without the bound anybody could grow the document by asking and cancelling all day long. The oldest is
// forgotten; the ones that matter are seconds old.
const maxEarly = 256

// Capacity is the value object of one date. Remaining plus the seats of Accepted are always the seats of the house.
type Capacity struct {
	Remaining int                `json:"remaining"`
	Accepted  map[string]Booking `json:"accepted,omitempty"` // by reservation ID
	Early     []string           `json:"early,omitempty"`    // IDs cancelled before they were decided, oldest first
}

// A Booking is the part of an accepted reservation that the event of its cancellation needs.
type Booking struct {
	Name     string `json:"name"`
	Email    string `json:"email"`
	Quantity int    `json:"quantity"`
}

// Reserve decides a reservation that has no [Faults]. A repeated reservation that holds its seats already changes
// nothing.
//
// A reservation that was cancelled before it could be decided emits ReservationCancelled, not ReservationRejected:
// the event says what the person did, not that there was no room.
func (c Capacity) Reserve(m MakeReservation) (Capacity, []channel.Message, error) {
	if _, ok := c.Accepted[m.ID]; ok {
		return c, nil, nil
	}
	if i := slices.Index(c.Early, m.ID); i >= 0 {
		c.Early = slices.Delete(slices.Clone(c.Early), i, i+1)
		return c, []channel.Message{ReservationCancelled(m)}, nil
	}
	if reason := c.refusal(m); reason != "" {
		return c, []channel.Message{ReservationRejected{
			ID: m.ID, Date: m.Date, Name: m.Name, Email: m.Email, Quantity: m.Quantity, Reason: reason,
		}}, nil
	}

	c.Remaining -= m.Quantity
	accepted := make(map[string]Booking, len(c.Accepted)+1) // the receiver's map must not change
	maps.Copy(accepted, c.Accepted)
	accepted[m.ID] = Booking{Name: m.Name, Email: m.Email, Quantity: m.Quantity}
	c.Accepted = accepted

	events := []channel.Message{ReservationAccepted(m)}
	if c.Remaining == 0 {
		events = append(events, SoldOut{Date: m.Date})
	}
	return c, events, nil
}

// refusal says why a reservation can't be accepted; it is empty for one that can.
func (c Capacity) refusal(m MakeReservation) string {
	switch {
	case c.Remaining == 0:
		return "We are fully booked that day."
	case m.Quantity > c.Remaining && c.Remaining == 1:
		return "Only one seat is left that day."
	case m.Quantity > c.Remaining:
		return fmt.Sprintf("Only %d seats are left that day.", c.Remaining)
	}
	return ""
}

// Cancel gives the seats of an accepted reservation back. It notes any other cancellation, because the reservation
// may still be on its way. If that was rejected or cancelled before, the note has no effect.
func (c Capacity) Cancel(m CancelReservation) (Capacity, []channel.Message, error) {
	b, ok := c.Accepted[m.ID]
	if !ok {
		c.Early = noted(c.Early, m.ID)
		return c, nil, nil
	}

	events := []channel.Message{ReservationCancelled{ID: m.ID, Date: m.Date, Name: b.Name, Email: b.Email, Quantity: b.Quantity}}
	if c.Remaining == 0 {
		events = append(events, Reopened{Date: m.Date})
	}
	c.Remaining += b.Quantity
	c.Accepted = maps.Clone(c.Accepted)
	delete(c.Accepted, m.ID)
	return c, events, nil
}

func noted(ids []string, id string) []string {
	if slices.Contains(ids, id) {
		return ids
	}
	kept := ids[max(0, len(ids)+1-maxEarly):]
	return append(slices.Clone(kept), id)
}
