package app

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
)

const (
	mailTimeout = 3 * time.Minute // for all that a mail server takes its time for; the mailer has limits for each step
	mailGiveUp  = 24 * time.Hour  // the age from which a mail that can't be sent counts its attempts
	mailWait    = 5 * time.Second // for which a mail waits in its handler; one that has to wait longer is handed back
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
	pace  *pace
}

func (g guarded) Send(ctx context.Context, m reservations.Mail) error {
	if err := g.pace.wait(ctx); err != nil {
		return err
	}
	return g.guard.Do(ctx, func(ctx context.Context) error { return g.Mailer.Send(ctx, m) })
}

// A pace holds the mails of this process to a rate. The zero pace has no limit.
type pace struct {
	mu   sync.Mutex
	each time.Duration // between two mails; 0: no limit; under mu
	next time.Time     // when the next mail may be sent; under mu
}

func (p *pace) set(perMinute int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.each = 0
	if perMinute > 0 {
		p.each = time.Minute / time.Duration(perMinute)
	}
	if soon := time.Now().Add(p.each); p.next.After(soon) {
		p.next = soon
	}
}

// wait waits until a mail may be sent. If that takes too long, its message is handed back, which costs no attempt.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	d := max(0, p.next.Sub(now))
	if d <= mailWait {
		p.next = now.Add(d + p.each)
	}
	p.mu.Unlock()
	if d > mailWait {
		return handlers.Later(d+rand.N(d), "as many mails as may be sent wait already")
	}
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
