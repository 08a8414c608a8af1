package boot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// mailFolder is where mails go when there is no SMTP server.
const mailFolder = "data/mail"

// maxSeats bounds -seats: the value object of a date holds all that is accepted for it.
const maxSeats = 10_000

// Settings are what all programs of the sample need to know.
type Settings struct {
	store, smtp *string
	seats       *int
}

// AddSettings defines the common flags.
func AddSettings(f *Flags) Settings {
	return Settings{
		store: f.Secret("store", "sqlite:data/reservations.db", "the `URL` of the store; all programs of one system use the same"),
		seats: f.Int("seats", 40, 1, maxSeats, "how many `SEATS` the restaurant has; the same for all programs of one system"),
		smtp: f.Secret("smtp", "", "the `URL` of the SMTP server for mails, for example smtp://localhost:25?from=tables@example.org\n"+
			"or smtps://USER:PASSWORD@HOST:465. Without one, each mail becomes a file in "+mailFolder),
	}
}

// Drivers are the kinds of store that the programs know.
func Drivers() storage.Drivers {
	return storage.Drivers{"sqlite": sqlite.Open}
}

// OpenStore opens the store that the settings name.
func (s Settings) OpenStore(ctx context.Context) (storage.Store, error) {
	store, err := Drivers().Open(ctx, *s.store)
	if errors.Is(err, storage.ErrInvalid) {
		return nil, &UsageError{fmt.Errorf("-store: %w", err)}
	}
	return store, err
}

// Close closes a store when a program's function returns, and adds the error to the function's own.
func Close(store storage.Store, err *error) {
	*err = errors.Join(*err, store.Close())
}

// Mailer returns the mailer that the settings ask for, and where its mails go, for people.
func (s Settings) Mailer() (m reservations.Mailer, where string, err error) {
	if *s.smtp == "" {
		return patient{mail.NewFolder(mailFolder)}, "files in " + mailFolder, nil
	}
	server, err := mail.NewSMTP(*s.smtp, mail.SMTPConfig{})
	if err != nil {
		return nil, "", &UsageError{fmt.Errorf("-smtp: %w", err)}
	}
	return patient{server}, server.String(), nil
}

const (
	mailAgain  = 30 * time.Second // until a mail that could not be sent is tried again
	mailGiveUp = 24 * time.Hour   // how long a server may be away before mails count as failed attempts
)

// patient says how a mail ends that could not be sent. One that is refused for good goes to the poison queue at once,
// where an operator sees it. Anything else is the server's fault, not the mail's: it waits, for a day, without
// spending attempts.
type patient struct{ reservations.Mailer }

func (p patient) Send(ctx context.Context, m reservations.Mail) error {
	err := p.Mailer.Send(ctx, m)
	event, _, _ := channel.Handled(ctx)
	switch {
	case errors.Is(err, mail.ErrRefused):
		return handlers.Poison("mail refused", err)
	case err != nil && time.Since(event.Time) < mailGiveUp:
		return handlers.Later(mailAgain, err.Error())
	}
	return err
}

// Channels returns the sample's channels, for what sends on behalf of source.
func Channels(store storage.Store, source string) (*channel.Channels, error) {
	routes, err := reservations.Routes()
	if err != nil {
		return nil, err
	}
	return channel.New(store, routes, source)
}

// NewWorker returns a worker for all of the sample's messages.
func (s Settings) NewWorker(store storage.Store, mailer reservations.Mailer, cfg worker.Config) (*worker.Worker, error) {
	channels, err := Channels(store, "/worker")
	if err != nil {
		return nil, err
	}
	h := handlers.NewRegistry(channels, handlers.Config{Logger: cfg.Logger})
	reservations.Register(h, *s.seats, mailer)
	return worker.New(store, h, cfg)
}
