package reservations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// A Mail is one e-mail.
type Mail struct {
	To, Subject, Text string

	// MessageID is the ID of the event that the mail is about, the same when the mail is sent again. It becomes the
	// part before the @ of the Message-ID header.
	MessageID string
}

// A Mailer sends mails. Send returns nil once another system is responsible for the mail. It is called again after an
// error. It is safe for concurrent use.
type Mailer interface {
	Send(ctx context.Context, m Mail) error
}

// Mails tells people what was decided. Register its methods as reactions by handlers.ReactOnce.
type Mails struct {
	Mailer Mailer

	// Receipt returns the address of a reservation's receipt, for the mail's reader alone: it is the right to cancel.
	// Defaults to none, and mails without a link.
	Receipt func(id string) string

	// Now tells the time, in the location that decides which day it is. Defaults to time.Now.
	Now func() time.Time
}

// Confirm tells of an accepted reservation.
func (m Mails) Confirm(ctx context.Context, e ReservationNumbered) error {
	return m.send(ctx, e.Email, "Your table is booked", fmt.Sprintf(
		"Dear %s,\n\nwe look forward to seeing you on %s: a table for %s.\nYour reservation is No. %s.\n\n%s",
		e.Name, DateInWords(e.Date), people(e.Quantity), e.Number, m.reference(e.ID, "See or cancel it, and keep this address to yourself")))
}

// Refuse tells of a rejected reservation.
func (m Mails) Refuse(ctx context.Context, e ReservationRejected) error {
	return m.send(ctx, e.Email, "We have no table for you", fmt.Sprintf(
		"Dear %s,\n\nwe are sorry: we can't offer you a table for %s on %s.\n%s\n\n%s",
		e.Name, people(e.Quantity), DateInWords(e.Date), e.Reason, m.reference(e.ID, "See it again")))
}

// Cancel tells of a cancelled reservation.
func (m Mails) Cancel(ctx context.Context, e ReservationCancelled) error {
	return m.send(ctx, e.Email, "Your reservation is cancelled", fmt.Sprintf(
		"Dear %s,\n\nyour table for %s on %s is cancelled. We hope to see you another day.\n\n%s",
		e.Name, people(e.Quantity), DateInWords(e.Date), m.reference(e.ID, "See it again")))
}

// KeepBooked tells of a cancellation that was refused.
func (m Mails) KeepBooked(ctx context.Context, e CancellationRefused) error {
	return m.send(ctx, e.Email, "Your reservation can't be cancelled", fmt.Sprintf(
		"Dear %s,\n\nwe can't cancel your table for %s on %s any more.\n%s\n\n%s",
		e.Name, people(e.Quantity), DateInWords(e.Date), e.Reason, m.reference(e.ID, "See it again")))
}

// Remind tells of a reservation on the day after. A reminder that comes so late that the day is over isn't sent.
func (m Mails) Remind(ctx context.Context, e ReminderDue) error {
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	if e.Date < now().Format(time.DateOnly) {
		return nil
	}
	return m.send(ctx, e.Email, "We are looking forward to your visit", fmt.Sprintf(
		"Dear %s,\n\nyou have booked a table for %s on %s. If you can't come, please cancel: somebody else may want it.\n\n%s",
		e.Name, people(e.Quantity), DateInWords(e.Date), m.reference(e.ID, "See or cancel it, and keep this address to yourself")))
}

// Alert tells an operator what is wrong, or over.
func (m Mails) Alert(ctx context.Context, e OperatorAlerted) error {
	return m.send(ctx, e.Email, e.Title, e.Text)
}

// reference is the end of a mail: the reservation's ID and the link.
func (m Mails) reference(id, invitation string) string {
	text := "Reservation " + id + "\n"
	if m.Receipt != nil {
		text += invitation + ": " + m.Receipt(id) + "\n"
	}
	return text
}

func (m Mails) send(ctx context.Context, to, subject, text string) error {
	event, _, ok := channel.Handled(ctx)
	if !ok {
		return errors.New("mails: no event is being handled, so the mail would have no ID")
	}
	if err := m.Mailer.Send(ctx, Mail{To: to, Subject: subject, Text: text, MessageID: event.ID}); err != nil {
		return fmt.Errorf("mails: %w", err)
	}
	return nil
}

// DateInWords writes a date as people do.
func DateInWords(date string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return t.Format("Monday, 2 January 2006")
}

func people(n int) string {
	if n == 1 {
		return "one"
	}
	return fmt.Sprint(n)
}
