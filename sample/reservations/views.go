package reservations

import (
	"slices"
)

// Month is the calendar's view of a month: which days are sold out and not over. Its key is the month, "2026-12".
type Month struct {
	DisabledDays []string `json:"disabledDays"` // dates, sorted
}

// Disable folds a SoldOut.
func (m Month) Disable(e SoldOut) Month {
	if i, found := slices.BinarySearch(m.DisabledDays, e.Date); !found {
		m.DisabledDays = slices.Insert(slices.Clone(m.DisabledDays), i, e.Date)
	}
	return m
}

// Enable folds a Reopened.
func (m Month) Enable(e Reopened) Month {
	if i, found := slices.BinarySearch(m.DisabledDays, e.Date); found {
		m.DisabledDays = slices.Delete(slices.Clone(m.DisabledDays), i, i+1)
	}
	return m
}

// Close folds a DateClosed. That the day is over needs no entry.
func (m Month) Close(e DateClosed) Month { return m.Enable(Reopened(e)) }

// Restore sets a day as its value object says. Rebuild makes a lost view from such calls.
func (m Month) Restore(date string, c Capacity) Month {
	if c.Remaining == 0 && !c.Closed {
		return m.Disable(SoldOut{Date: date})
	}
	return m.Enable(Reopened{Date: date})
}

// MonthOf returns the month of a date: the key of its view.
func MonthOf(date string) string { return date[:min(len(date), len("2006-01"))] }

// State is where a reservation stands.
type State string

// The states of a reservation. Pending is never stored: it is the state before the decision.
const (
	Pending   State = "pending"
	Accepted  State = "accepted"
	Rejected  State = "rejected"
	Cancelled State = "cancelled"
)

// Final reports whether the state can't change any more.
func (s State) Final() bool { return s == Rejected || s == Cancelled }

// Status is the view of one reservation, for the person who made it, by the reservation's [Key]. It doesn't hold the
// e-mail address, because everybody who has the link may see it.
type Status struct {
	ID       string `json:"id"`
	Date     string `json:"date"`
	Name     string `json:"name"`
	Quantity int    `json:"quantity"`
	Status   State  `json:"status"`
	Number   string `json:"number,omitempty"` // 1042-9; empty until it is accepted
	Reason   string `json:"reason,omitempty"` // why it was rejected, or can't be cancelled
	Wish     Wish   `json:"wish,omitzero"`
}

// Accept folds a ReservationNumbered. A cancelled reservation only gets its number.
func (s Status) Accept(e ReservationNumbered) Status {
	if s.Status == Cancelled {
		s.Number = e.Number
		return s
	}
	return Status{ID: e.ID, Date: e.Date, Name: e.Name, Quantity: e.Quantity, Status: Accepted, Number: e.Number, Reason: s.Reason, Wish: s.Wish}
}

// Keep folds a CancellationRefused: only the reason is new.
func (s Status) Keep(e CancellationRefused) Status {
	return Status{ID: e.ID, Date: e.Date, Name: e.Name, Quantity: e.Quantity, Status: Accepted, Number: s.Number, Reason: e.Reason, Wish: s.Wish}
}

// Reject folds a ReservationRejected.
func (Status) Reject(e ReservationRejected) Status {
	return Status{ID: e.ID, Date: e.Date, Name: e.Name, Quantity: e.Quantity, Status: Rejected, Reason: e.Reason}
}

// Cancel folds a ReservationCancelled, and keeps the number and the wish.
func (s Status) Cancel(e ReservationCancelled) Status {
	return Status{ID: e.ID, Date: e.Date, Name: e.Name, Quantity: e.Quantity, Status: Cancelled, Number: s.Number, Wish: s.Wish}
}
