package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/worker"
)

func TestTheMailGuardIsComplete(t *testing.T) {
	t.Parallel()
	if err := newMailGuard().Err(); err != nil {
		t.Error(err)
	}
}

// outbox is a mail server that may be away.
type outbox struct {
	mu     sync.Mutex
	away   bool     // under mu
	failed int      // calls, under mu
	mails  []string // under mu; whom they went to

	subjects []string // under mu
}

func (o *outbox) Send(_ context.Context, m reservations.Mail) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		o.failed++
		return errors.New("connection refused")
	}
	o.mails, o.subjects = append(o.mails, m.To), append(o.subjects, m.Subject)
	return nil
}

// The mail server is away for five minutes while guests book. All mails are sent when it is back, each once, and the
// server was called rarely.
func TestAMailServerThatIsAway(t *testing.T) {
	t.Parallel()
	const guests = 60
	server, smtp := outbox{away: true}, newMailGuard()
	program := millracetest.Program{
		Routes: reservations.Routes,
		Register: func(h *handlers.Registry) error {
			numbers, err := reservations.Numbers(h.Channels().Store(), ids.Config{})
			reservations.Register(h, 1000, reservations.Mails{Mailer: guarded{&server, smtp}}, numbers, nil)
			return err
		},
		Queues: map[string]worker.QueueConfig{reservations.MailQueue: {Limiter: smtp.Limiter}},
	}
	millracetest.Run(t, program, func(t *testing.T, app *millracetest.App) {
		for n := range guests {
			email := fmt.Sprintf("guest-%d@example.org", n)
			app.Send(reservations.MakeReservation{ID: fmt.Sprintf("reservation-%d", n), Date: "2026-12-24", Name: "Ada", Email: email, Quantity: 1})
		}
		<-time.After(5 * time.Minute)
		server.mu.Lock()
		if server.failed < 20 || server.failed > 60 {
			t.Errorf("%d calls of a server that is away, want 20 to 60", server.failed)
		}
		server.away = false
		server.mu.Unlock()
		app.Drain()
		if slices.Sort(server.mails); len(server.mails) != guests || len(slices.Compact(server.mails)) != guests {
			t.Errorf("got %d mails, want one for each of %d guests", len(server.mails), guests)
		}
	})
}

// Mails keep their rate, which may change, and each is sent once.
func TestMailsKeepTheirRate(t *testing.T) {
	t.Parallel()
	const guests = 120
	var server outbox
	smtp := newMailGuard()
	setRate := func(perMinute int) {
		t.Helper()
		if err := setMailRate(smtp, perMinute); err != nil {
			t.Fatal(err)
		}
	}
	setRate(60)
	program := millracetest.Program{
		Routes: reservations.Routes,
		Register: func(h *handlers.Registry) error {
			numbers, err := reservations.Numbers(h.Channels().Store(), ids.Config{})
			reservations.Register(h, 1000, reservations.Mails{Mailer: guarded{&server, smtp}}, numbers, nil)
			return err
		},
		Queues: map[string]worker.QueueConfig{reservations.MailQueue: {Limiter: smtp.Limiter}},
	}
	millracetest.Run(t, program, func(t *testing.T, app *millracetest.App) {
		for n := range guests {
			email := fmt.Sprintf("guest-%d@example.org", n)
			app.Send(reservations.MakeReservation{ID: fmt.Sprintf("reservation-%d", n), Date: "2026-12-24", Name: "Ada", Email: email, Quantity: 1})
		}
		sent := func() int {
			server.mu.Lock()
			defer server.mu.Unlock()
			return len(server.mails)
		}
		<-time.After(time.Minute)
		if n := sent(); n < 20 || n > 61 {
			t.Errorf("%d mails in a minute at 60 a minute", n)
		}
		setRate(0)
		app.Drain()
		if slices.Sort(server.mails); len(server.mails) != guests || len(slices.Compact(server.mails)) != guests {
			t.Errorf("got %d mails, want one for each of %d guests", len(server.mails), guests)
		}
		if n := len(app.Poison()); n > 0 {
			t.Errorf("%d mails went to the poison queue", n)
		}
	})
}
