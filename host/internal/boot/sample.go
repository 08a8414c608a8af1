package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/cost"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// mailFolder is where mails go when there is no SMTP server.
const mailFolder = "data/mail"

// ReasonMailRefused is the reason of a message in the poison queue whose mail no server will ever accept.
const ReasonMailRefused = "mail refused"

// maxSeats bounds -seats, because the value object of a date holds all that is accepted for it.
const maxSeats = 10_000

// Settings are what all programs of the sample need to know.
type Settings struct {
	store, smtp, url, prices  *string
	doorbell, doorbellAddress *string
	seats, active             *int
}

// AddSettings defines the common flags.
func AddSettings(f *Flags) Settings {
	return Settings{
		store: f.String("store", "sqlite:data/reservations.db", "the `URL` of the store; all programs of one system use the same. sqlite:PATH is a file.\n"+
			"azure://ACCOUNT?prefix=NAME is a storage account, with the identity of the program. azure:?prefix=NAME is one with the\n"+
			"connection string in "+azure.EnvConnectionString+". azure:UseDevelopmentStorage=true is Azurite on this machine"),
		seats: f.Int("seats", 40, 1, maxSeats, "the number of `SEATS` of the restaurant; all programs of one system use the same"),
		active: f.Int("active", 0, 0, 1000, "the number of `WORKERS` that consume a queue at a time; the others stand by. All programs that run a worker\n"+
			"use the same. 0 means all workers. All workers always consume the queue of mails"),
		smtp: f.String("smtp", "", "the `URL` of the SMTP server for mails, for example smtp://localhost:25?from=tables@example.org\n"+
			"or smtps://USER:PASSWORD@HOST:465. Without one, each mail becomes a file in "+mailFolder),
		doorbell: f.String("doorbell", ":0", "the UDP `ADDRESS`, IP:PORT, at which other programs wake an idle worker when the store is in the cloud. "+
			"Port 0\ntakes a free port. "+off+" disables it: then workers poll, at least every 30 seconds. No effect on SQLite, which wakes workers\nitself"),
		doorbellAddress: f.String("doorbell-address", "", "the `ADDRESSES` at which other machines reach -doorbell, separated by commas, if they are not this\nmachine's own. No effect on SQLite"),
		prices: f.String("prices", "", "the JSON `FILE` with the prices of the store's requests, for the summary at the end:\n"+
			`{"currency": "EUR", "per10000": {"blob write": 0.1}}. No effect on SQLite, which costs nothing`),
		url: f.String("url", "", "the public `URL` of the site, for example https://tables.example.org. With it, mails contain the link to the\n"+
			"reservation, which can cancel it. Only a worker needs it"),
	}
}

// Drivers are the kinds of store that the programs know. Stores log to log.
func Drivers(log *slog.Logger) storage.Drivers {
	return storage.Drivers{"sqlite": sqlite.WithLogger(log), "azure": azure.Open}
}

// off as an address means none.
const off = "off"

// OpenStore opens the store that the settings name, with a doorbell if the store has none of its own. rings is nil
// without a doorbell.
func (s Settings) OpenStore(ctx context.Context, log *slog.Logger) (store *storage.Store, rings func() doorbell.Counts, err error) {
	cfg := doorbell.Config{Logger: log}
	if *s.doorbell != off {
		cfg.Listen = *s.doorbell
	}
	if *s.doorbellAddress != "" {
		cfg.Advertise = strings.Split(*s.doorbellAddress, ",")
	}
	if err := errors.Join(badFlag("doorbell", doorbell.Config{Listen: cfg.Listen}.Check()), badFlag("doorbell-address", doorbell.Config{Advertise: cfg.Advertise}.Check())); err != nil {
		return nil, nil, err
	}
	store, err = Drivers(log).Open(ctx, *s.store)
	if errors.Is(err, storage.ErrInvalid) {
		return nil, nil, badFlag("store", err)
	}
	if err != nil || *s.doorbell == off || store.Rings() {
		return store, nil, err
	}
	bell, err := doorbell.Over(store, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return bell.Store, bell.Counts, nil
}

// badFlag adds a flag's name to an error, if there is one.
func badFlag(flag string, err error) error {
	if err == nil {
		return nil
	}
	var e *storage.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return &UsageError{fmt.Errorf("-%s: %w", flag, err)}
}

// Close closes a store when a program's function returns, and adds the error to the function's own.
func Close(store *storage.Store, err *error) {
	closing := store.Close()
	var cause *sqlite.Error
	if errors.As(closing, &cause) { // the store's further text is for programs that go on
		closing = fmt.Errorf("stopped, but SQLite could not write its log back into the database file: %w. "+
			"Nothing is lost. Keep both files: the next start reads both", cause)
	}
	*err = errors.Join(*err, closing)
}

// Mails returns the mails that the settings ask for. where says in words for people where they go.
func (s Settings) Mails() (m reservations.Mails, where string, err error) {
	if *s.url != "" {
		if m.Receipt, err = site.Receipts(*s.url); err != nil {
			return m, "", badFlag("url", err)
		}
	}
	if *s.smtp == "" {
		m.Mailer = patient{mail.NewFolder(mailFolder)}
		return m, "files in " + mailFolder, nil
	}
	server, err := mail.NewSMTP(*s.smtp, mail.SMTPConfig{})
	if err != nil {
		return m, "", badFlag("smtp", err)
	}
	m.Mailer = patient{server}
	return m, server.String(), nil
}

const (
	mailAgain  = 30 * time.Second // until the next try of a mail that could not be sent
	mailGiveUp = 24 * time.Hour   // how long a server may be away before mails count as failed attempts
)

// patient decides what follows when a mail could not be sent. A mail that is refused for good goes to the poison
// queue at once, where an operator sees it. Any other failure is the server's, so the mail waits, for a day, without
// spending attempts.
type patient struct{ reservations.Mailer }

func (p patient) Send(ctx context.Context, m reservations.Mail) error {
	err := p.Mailer.Send(ctx, m)
	event, _, _ := channel.Handled(ctx)
	switch {
	case errors.Is(err, mail.ErrRefused):
		return handlers.Poison(ReasonMailRefused, err)
	case err != nil && time.Since(event.Time) < mailGiveUp:
		return handlers.Later(mailAgain, err.Error())
	}
	return err
}

// Prices returns the prices that the settings name, nil for none.
func (s Settings) Prices() (*cost.Prices, error) {
	if *s.prices == "" {
		return nil, nil
	}
	file, err := os.Open(*s.prices)
	if err != nil {
		return nil, badFlag("prices", err)
	}
	defer func() { _ = file.Close() }()
	prices, err := cost.ReadPrices(file)
	if err != nil {
		return nil, badFlag("prices", fmt.Errorf("%s: %w", *s.prices, err))
	}
	return prices, nil
}

// Channels returns the sample's channels. source is the sender's name in messages.
func Channels(store *storage.Store, source string) (*channel.Channels, error) {
	routes, err := reservations.Routes()
	if err != nil {
		return nil, err
	}
	return channel.New(store, routes, source)
}
