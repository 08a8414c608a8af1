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

// RemindGuests asks for a reminder to everybody who has a reservation on a date.
type RemindGuests struct {
	Date string `json:"date"`
}

// CloseDate says that a date is over.
type CloseDate struct {
	Date string `json:"date"`
}

// ArchiveDate says that nobody needs the documents of a date any more.
type ArchiveDate struct {
	Date string `json:"date"`
}

// KeepEvening asks to keep of a date what is in the ledger.
type KeepEvening struct {
	Date      string  `json:"date"`
	Guests    int     `json:"guests"`
	Tables    []Table `json:"tables,omitempty"`
	Cancelled int     `json:"cancelled"`
	Rejected  int     `json:"rejected"`
}

// ReservationAccepted says that the seats are taken.
type ReservationAccepted struct {
	ID       string `json:"id"`
	Date     string `json:"date"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	Quantity int    `json:"quantity"`
}

// ReservationNumbered says that an accepted reservation is in the ledger, under a number that people can read.
type ReservationNumbered struct {
	ID       string `json:"id"`
	Date     string `json:"date"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	Quantity int    `json:"quantity"`
	Number   string `json:"number"` // 1042-9, see ids.Format
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

// CancellationRefused says that a reservation stays as it is, and why.
type CancellationRefused struct {
	ID       string `json:"id"`
	Date     string `json:"date"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	Quantity int    `json:"quantity"`
	Reason   string `json:"reason"` // a sentence for the person
}

// ReminderDue says that a reservation holds seats on the day after.
type ReminderDue struct {
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

// DateClosed says that nothing of a date changes any more.
type DateClosed struct {
	Date string `json:"date"`
}

// DateArchived says that a date holds no bookings any more. Their other documents can go, too.
type DateArchived struct {
	Date string `json:"date"`
}

// EveningKept says that the ledger of a date isn't needed any more.
type EveningKept struct {
	Date string `json:"date"`
}

// OperatorAlerted says that something is wrong with the program, or is over: a finding of doctor.
type OperatorAlerted struct {
	ID    string `json:"id"` // of the alert
	Email string `json:"email"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

func (MakeReservation) Kind() channel.Kind      { return "reservations.make.v1" }
func (CancelReservation) Kind() channel.Kind    { return "reservations.cancel.v1" }
func (RemindGuests) Kind() channel.Kind         { return "reservations.remind.v1" }
func (CloseDate) Kind() channel.Kind            { return "reservations.close.v1" }
func (ArchiveDate) Kind() channel.Kind          { return "reservations.archive.v1" }
func (KeepEvening) Kind() channel.Kind          { return "reservations.keepevening.v1" }
func (ReservationAccepted) Kind() channel.Kind  { return "reservations.accepted.v1" }
func (ReservationNumbered) Kind() channel.Kind  { return "reservations.numbered.v1" }
func (ReservationRejected) Kind() channel.Kind  { return "reservations.rejected.v1" }
func (ReservationCancelled) Kind() channel.Kind { return "reservations.cancelled.v1" }
func (CancellationRefused) Kind() channel.Kind  { return "reservations.cancellationrefused.v1" }
func (ReminderDue) Kind() channel.Kind          { return "reservations.reminderdue.v1" }
func (SoldOut) Kind() channel.Kind              { return "reservations.soldout.v1" }
func (Reopened) Kind() channel.Kind             { return "reservations.reopened.v1" }
func (DateClosed) Kind() channel.Kind           { return "reservations.closed.v1" }
func (DateArchived) Kind() channel.Kind         { return "reservations.archived.v1" }
func (EveningKept) Kind() channel.Kind          { return "reservations.eveningkept.v1" }
func (OperatorAlerted) Kind() channel.Kind      { return "reservations.operatoralerted.v1" }

// Key stands for a reservation in names: those of messages, documents and rows, which appear in logs and errors. The
// ID itself is in contents only, because everybody who knows it may cancel. The key is a one-way function of the ID,
// and carries the same time.
func Key(id string) string { return channel.DerivedID(id, "reservation") }

// MessageID makes repeated sends of a reservation one message.
func (m MakeReservation) MessageID() string { return Key(m.ID) }

// MessageID makes repeated cancellations one message. It carries no time on purpose: a reservation made months ago
// can be cancelled today. A repeat that nobody remembers any more finds no seats to give back.
func (m CancelReservation) MessageID() string { return channel.DerivedID("cancel:" + m.ID) }

// MessageID makes all reminders of a reservation one message, whoever asks for them. It carries no time, as that of a
// cancellation.
func (e ReminderDue) MessageID() string { return channel.DerivedID("reminder:" + e.ID) }

// MessageID makes repeated alerts of one beginning or end one message, and so one mail.
func (e OperatorAlerted) MessageID() string { return e.ID }

// Alias returns what the program calls a reservation: the IDs of the messages that make and cancel it, of which the
// first is also the key of its status.
func Alias(id string) []string {
	return []string{MakeReservation{ID: id}.MessageID(), CancelReservation{ID: id}.MessageID()}
}
