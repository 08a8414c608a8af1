package reservations

import "github.com/millrace-go/millrace/channel"

// MakeReservation asks for seats on a date.
type MakeReservation struct {
	ID       string `json:"id"`
	Date     string `json:"date"` // 2026-12-24
	Name     string `json:"name"`
	Email    string `json:"email"`
	Quantity int    `json:"quantity"` // seats
}

// CancelReservation gives the seats of a reservation back.
type CancelReservation struct {
	ID   string `json:"id"`
	Date string `json:"date"`
}

// ReservationAccepted says that the seats are taken.
type ReservationAccepted struct {
	ID       string `json:"id"`
	Date     string `json:"date"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	Quantity int    `json:"quantity"`
}

// ReservationRejected says that there will be no table, and why.
type ReservationRejected struct {
	ID       string `json:"id"`
	Date     string `json:"date"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	Quantity int    `json:"quantity"`
	Reason   string `json:"reason"` // a sentence for the person
}

// ReservationCancelled says that a reservation no longer holds seats.
type ReservationCancelled struct {
	ID       string `json:"id"`
	Date     string `json:"date"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	Quantity int    `json:"quantity"`
}

// SoldOut says that a date's last seat is taken.
type SoldOut struct {
	Date string `json:"date"`
}

// Reopened says that a date that was sold out has seats again.
type Reopened struct {
	Date string `json:"date"`
}

func (MakeReservation) Kind() channel.Kind      { return "reservations.make.v1" }
func (CancelReservation) Kind() channel.Kind    { return "reservations.cancel.v1" }
func (ReservationAccepted) Kind() channel.Kind  { return "reservations.accepted.v1" }
func (ReservationRejected) Kind() channel.Kind  { return "reservations.rejected.v1" }
func (ReservationCancelled) Kind() channel.Kind { return "reservations.cancelled.v1" }
func (SoldOut) Kind() channel.Kind              { return "reservations.soldout.v1" }
func (Reopened) Kind() channel.Kind             { return "reservations.reopened.v1" }

// Key stands for a reservation in names: those of messages, documents and rows, which appear in logs and errors. The
// ID itself is in contents only, because everybody who knows it may cancel. The key is a one-way function of the ID,
// and carries the same time.
func Key(id string) string { return channel.DerivedID(id, "reservation") }

// MessageID makes repeated sends of a reservation one message.
func (m MakeReservation) MessageID() string { return Key(m.ID) }

// MessageID makes repeated cancellations one message. It carries no time on purpose: a reservation made months ago
// can be cancelled today. A repeat that nobody remembers any more finds no seats to give back.
func (m CancelReservation) MessageID() string { return channel.DerivedID("cancel:" + m.ID) }

// Alias returns what the program calls a reservation: the IDs of the messages that make and cancel it, of which the
// first is also the key of its status.
func Alias(id string) []string {
	return []string{MakeReservation{ID: id}.MessageID(), CancelReservation{ID: id}.MessageID()}
}
