package app

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
)

const (
	mailTimeout = 3 * time.Minute // for all that a mail server takes its time for; the mailer has limits for each step
	maxMailRate = 1_000_000       // mails a minute
	mailGiveUp  = 24 * time.Hour  // the age from which a mail that can't be sent counts its attempts
)

// newMailGuard returns what pauses the mails while their server is away. A mail may be sent twice: its Message-ID shows
// the repeat to its reader's program.
func newMailGuard() *guard.Guard {
	return guard.New("smtp", guard.Config{Fault: mail.Fault, Repeatable: true, Timeout: mailTimeout, MaxAge: mailGiveUp})
}

// guarded sends each mail within the guard.
type guarded struct {
	reservations.Mailer
	guard *guard.Guard
}

func (g guarded) Send(ctx context.Context, m reservations.Mail) error {
	return g.guard.Do(ctx, func(ctx context.Context) error { return g.Mailer.Send(ctx, m) })
}

// setMailRate says how many mails all workers together send in a minute; 0: no limit.
func setMailRate(smtp *guard.Guard, perMinute int) error {
	limits := smtp.Limits()
	limits.Rate = guard.PerMinute(float64(perMinute))
	return smtp.Set(limits)
}
