// Package app is the sample as a program: its settings, and what it opens. The programs in cmd are made from it.
package app

import (
	"context"
	"net/http"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/worker"
)

const (
	// mailFolder is where mails go when there is no SMTP server.
	mailFolder = "data/mail"

	// maxSeats bounds -seats, because the value object of a date holds all that is accepted for it.
	maxSeats = 10_000
)

// Program returns the sample.
func Program() host.Program {
	var s settings
	return host.Program{
		Name:     "reservations",
		Routes:   reservations.Routes,
		Register: s.register,
		Web:      s.web,
		Flags:    s.flags,
		Start:    s.start,
		Rebuild:  map[string]host.Rebuild{"months": months()},
		Alias:    reservations.Alias,
		// Handlers of mails mostly wait, so all workers always consume their queue.
		Worker: worker.Config{Queues: map[string]worker.QueueConfig{reservations.MailQueue: {Turn: worker.Turns()}}},
	}
}

// settings are the sample's own, and what is made of them.
type settings struct {
	seats   *int
	mails   reservations.Mails
	mailsTo string // in words for people
}

func (s *settings) flags(f *host.Flags) {
	s.seats = f.Int("seats", 40, 1, maxSeats, "the number of `SEATS` of the restaurant; all programs of one system use the same")
	smtp := f.String("smtp", "", "the `URL` of the SMTP server for mails, for example smtp://localhost:25?from=tables@example.org\n"+
		"or smtps://USER:PASSWORD@HOST:465. Without one, each mail becomes a file in "+mailFolder)
	f.Check("smtp", func() error { return s.setMailer(*smtp) })
	url := f.String("url", "", "the public `URL` of the site, for example https://tables.example.org. With it, mails contain the link to the\n"+
		"reservation, which can cancel it. Only a worker needs it")
	f.Check("url", func() (err error) {
		if *url != "" {
			s.mails.Receipt, err = site.Receipts(*url)
		}
		return err
	})
}

func (s *settings) setMailer(smtp string) error {
	if smtp == "" {
		s.mails.Mailer, s.mailsTo = patient{mail.NewFolder(mailFolder)}, "files in "+mailFolder
		return nil
	}
	server, err := mail.NewSMTP(smtp, mail.SMTPConfig{})
	if err != nil {
		return err
	}
	s.mails.Mailer, s.mailsTo = patient{server}, server.String()
	return nil
}

func (s *settings) start(_ context.Context, a *host.App) error {
	a.Say("Mails go to %s.", s.mailsTo)
	return nil
}

func (s *settings) register(h *handlers.Registry) error {
	reservations.Register(h, *s.seats, s.mails)
	return nil
}

// months rebuilds the calendar. The seats count only for dates without a document, which the rebuild never reads.
func months() host.Rebuild {
	return host.Rebuild{
		From:  "capacity",
		Clear: func(ctx context.Context, c *channel.Channels) error { return reservations.Months(c).Clear(ctx) },
		Run: func(ctx context.Context, c *channel.Channels) (int, error) {
			return reservations.RebuildMonths(ctx, c, 0)
		},
	}
}

func (s *settings) web(a *host.App) (http.Handler, error) {
	return site.New(a.Channels, site.Config{Logger: a.Log, Stopping: a.Stopping, Seats: *s.seats})
}
