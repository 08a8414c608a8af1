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

// dayIsOver is why a closed date refuses. It is for people.
const dayIsOver = "That day is over."

// Capacity is the value object of one date. Remaining plus the seats of Accepted are always the seats of the house,
// until the date is archived: then it is closed, and has neither.
type Capacity struct {
	Closed    bool               `json:"closed,omitempty"`
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
	case c.Closed:
		return dayIsOver
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
// may still be on its way. If that was rejected or cancelled before, the note has no effect. A closed date notes
// nothing, and keeps its reservations.
func (c Capacity) Cancel(m CancelReservation) (Capacity, []channel.Message, error) {
	b, ok := c.Accepted[m.ID]
	switch {
	case !ok && c.Closed:
		return c, nil, nil
	case !ok:
		c.Early = noted(c.Early, m.ID)
		return c, nil, nil
	case c.Closed:
		return c, []channel.Message{CancellationRefused{
			ID: m.ID, Date: m.Date, Name: b.Name, Email: b.Email, Quantity: b.Quantity, Reason: dayIsOver,
		}}, nil
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

// Remind emits a reminder for each accepted reservation. It changes nothing: a reminder is one message, however often
// it is emitted.
func (c Capacity) Remind(m RemindGuests) (Capacity, []channel.Message, error) {
	if c.Closed {
		return c, nil, nil
	}
	var events []channel.Message
	for _, id := range slices.Sorted(maps.Keys(c.Accepted)) {
		b := c.Accepted[id]
		events = append(events, ReminderDue{ID: id, Date: m.Date, Name: b.Name, Email: b.Email, Quantity: b.Quantity})
	}
	return c, events, nil
}

// Close ends all bookings and cancellations of a date. Early cancellations are forgotten: their reservations are
// refused in any case.
func (c Capacity) Close(m CloseDate) (Capacity, []channel.Message, error) {
	if c.Closed {
		return c, nil, nil
	}
	c.Closed, c.Early = true, nil
	return c, []channel.Message{DateClosed(m)}, nil
}

// Archive forgets the bookings of a date, which stays closed: nothing else would refuse a late command. It emits
// DateArchived every time, so that an operator can repeat it.
func (c Capacity) Archive(m ArchiveDate) (Capacity, []channel.Message, error) {
	_, events, _ := c.Close(CloseDate(m))
	return Capacity{Closed: true}, append(events, DateArchived(m)), nil
}

func noted(ids []string, id string) []string {
	if slices.Contains(ids, id) {
		return ids
	}
	kept := ids[max(0, len(ids)+1-maxEarly):]
	return append(slices.Clone(kept), id)
}
