package app

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
)

// ReasonMailRefused is the reason of a message in the poison queue whose mail no server will ever accept.
const ReasonMailRefused = "mail refused"

const (
	mailAgain  = 30 * time.Second // until the next try of a mail that could not be sent
	mailGiveUp = 24 * time.Hour   // how long a server may be away before mails count as failed attempts
)

// patient decides what follows when a mail could not be sent. A mail that is refused for good goes to the poison
// queue at once, where an operator sees it. Any other failure is the server's, so the mail waits, for a day, without
// spending attempts.
type patient struct{ reservations.Mailer }

func (p patient) Send(ctx context.Context, m reservations.Mail) error {
	event, _, _ := channel.Handled(ctx)
	return verdict(p.Mailer.Send(ctx, m), time.Since(event.Time))
}

// verdict says what follows when a mail of an age was sent, or could not be.
func verdict(err error, age time.Duration) error {
	switch {
	case errors.Is(err, mail.ErrRefused):
		return handlers.Poison(ReasonMailRefused, err)
	case err != nil && age < mailGiveUp:
		return handlers.Later(mailAgain, err.Error())
	}
	return err
}
