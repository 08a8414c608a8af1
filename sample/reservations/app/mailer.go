package app

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
)

// ReasonMailRefused is the reason of a message in the poison queue whose mail no server will ever accept.
const ReasonMailRefused = "mail refused"

const (
	mailTimeout = 3 * time.Minute // for all that a mail server takes its time for; the mailer has limits for each step
	mailGiveUp  = 24 * time.Hour  // the age from which a mail that can't be sent counts its attempts
)

// newMailGuard returns what pauses the mails while their server is away. A mail may be sent twice: its Message-ID shows
// the repeat to its reader's program.
func newMailGuard() *guard.Guard {
	return guard.New("smtp", guard.Config{Fault: mailFault, Repeatable: true, Timeout: mailTimeout, MaxAge: mailGiveUp})
}

// guarded sends each mail within the guard. A mail that is refused for good goes to the poison queue at once, where an
// operator sees it. Any other failure is the server's.
type guarded struct {
	reservations.Mailer
	guard *guard.Guard
}

func (g guarded) Send(ctx context.Context, m reservations.Mail) error {
	return g.guard.Do(ctx, func(ctx context.Context) error { return g.Mailer.Send(ctx, m) })
}

func mailFault(err error) guard.Fault {
	if errors.Is(err, mail.ErrRefused) {
		return guard.Fault{Kind: guard.Permanent, Reason: ReasonMailRefused}
	}
	f := guard.SMTP(err)
	if f.Kind == guard.Permanent { // the server refuses this program, or its sender; the mail is not at fault
		f.Kind = guard.Transient
	}
	return f
}
