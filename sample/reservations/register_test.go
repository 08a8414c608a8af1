package reservations_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

type mailerFunc func(context.Context, reservations.Mail) error

func (f mailerFunc) Send(ctx context.Context, m reservations.Mail) error { return f(ctx, m) }

func TestRegistrationIsComplete(t *testing.T) {
	t.Parallel()
	routes, err := reservations.Routes()
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(openStore(t), routes, "/test")
	if err != nil {
		t.Fatal(err)
	}
	files, err := reservations.Files(c, valet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := handlers.NewRegistry(c, handlers.Config{})
	reservations.Register(h, 40, reservations.Mails{}, nil, files)
	reservations.Schedule(h, "Europe/Berlin", reservations.MinRetention)
	if err := h.Err(); err != nil {
		t.Fatal(err)
	}
	for _, queue := range routes.Queues() {
		if got, want := h.Kinds(queue), routes.Kinds(queue); !slices.Equal(got, want) {
			t.Errorf("queue %s: handlers for %q, want %q", queue, got, want)
		}
	}
}

// A faulty reservation isn't sent. One that comes from a program that doesn't check is not decided: a negative quantity
// would add seats.
func TestFaultyReservations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		routes, err := reservations.Routes()
		if err != nil {
			t.Fatal(err)
		}
		c, err := channel.New(openStore(t), routes, "/test")
		if err != nil {
			t.Fatal(err)
		}
		var faults reservations.Faults
		faulty := reservations.MakeReservation{ID: "reservation-a", Date: "2026-12-24", Name: "Ada", Email: "ada@example.org", Quantity: -5}
		if err := c.Send(t.Context(), faulty); !errors.Is(err, channel.ErrRefused) || !errors.As(err, &faults) || faults["quantity"] == "" || len(faults) != 1 {
			t.Errorf("got error %v, want %v for its quantity", err, channel.ErrRefused)
		}
		q := c.Store().Queue("reservations")
		if st, err := q.Stats(t.Context()); err != nil || st != (storage.Stats{}) {
			t.Fatalf("got %+v (%v), want nothing in the queue", st, err)
		}
		raw := `{"specversion":"1.0","id":"x","source":"/else","type":"reservations.make.v1","data":{"id":"reservation-a","date":"2026-12-24","name":"Ada","email":"ada@example.org","quantity":-5}}`
		if err := q.Send(t.Context(), []storage.Message{{Body: []byte(raw)}}); err != nil {
			t.Fatal(err)
		}
		h := handlers.NewRegistry(c, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
		reservations.Register(h, 40, reservations.Mails{}, numbers(t, c.Store()), nil)
		w, err := worker.New(h, worker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		for e, err := range poison.At(c, "reservations").List(t.Context()) {
			if err != nil || e.ID != "x" || e.Reason != handlers.ReasonRefused {
				t.Errorf("got %+v, %v; want it refused by its check", e, err)
			}
		}
		if counts, err := poison.Count(t.Context(), c.Store()); err != nil || counts["reservations"] != 1 {
			t.Errorf("got poisoned %v (%v), want the one", counts, err)
		}
		if d, err := reservations.Capacities(c, 40).Get(t.Context(), "2026-12-24", ""); err != nil || d.Version != 0 {
			t.Errorf("got %+v (%v), want no decision", d, err)
		}
	})
}

func TestMails(t *testing.T) {
	t.Parallel()
	handleOne(t, numbered("reservation-a"), func(ctx context.Context) { checkMails(t, ctx) })
	if err := (reservations.Mails{}).Confirm(t.Context(), numbered("reservation-a")); err == nil {
		t.Error("outside of a handler: got no error, so the mail would have no ID")
	}
}

func numbered(id string) reservations.ReservationNumbered {
	a := accepted(id)
	return reservations.ReservationNumbered{ID: a.ID, Date: a.Date, Name: a.Name, Email: a.Email, Quantity: a.Quantity, Number: "1042-9"}
}

// handleOne runs f as the handler of an event.
func handleOne[E channel.Message](t *testing.T, event E, f func(context.Context)) {
	t.Helper()
	handled := false
	millracetest.Run(t, millracetest.Program{
		Routes: func() (*channel.Routes, error) { return channel.NewRoutes(channel.Event[E](reservations.MailQueue)) },
		Register: func(h *handlers.Registry) error {
			handlers.React(h, reservations.MailQueue, func(ctx context.Context, _ E) error { handled = true; f(ctx); return nil })
			return nil
		},
	}, func(_ *testing.T, app *millracetest.App) {
		app.Send(event)
		app.Drain()
	})
	if !handled {
		t.Fatal("the event was not handled")
	}
}

// checkMails tests the mails under a handler's context.
func checkMails(t *testing.T, ctx context.Context) {
	event, _, ok := channel.Handled(ctx)
	if !ok || event.ID == "" {
		t.Errorf("handled: got %+v, %v; want the event", event, ok)
	}
	var got reservations.Mail
	var fails error
	mails := reservations.Mails{Mailer: mailerFunc(func(_ context.Context, m reservations.Mail) error {
		got = m
		return fails
	})}
	a := numbered("reservation-a")
	cancelled := reservations.ReservationCancelled(accepted("reservation-a"))
	for _, test := range []struct {
		name string
		send func() error
		want []string
	}{
		{"Your table is booked", func() error { return mails.Confirm(ctx, a) }, []string{"Ada", "Thursday, 24 December 2026", "table for 2", "No. 1042-9", a.ID}},
		{"We have no table for you", func() error {
			return mails.Refuse(ctx, reservations.ReservationRejected{ID: a.ID, Date: a.Date, Name: a.Name, Email: a.Email, Quantity: 1, Reason: "We are full."})
		}, []string{"We are full.", "table for one", a.ID}},
		{"Your reservation can't be cancelled", func() error {
			return mails.KeepBooked(ctx, reservations.CancellationRefused{ID: a.ID, Date: a.Date, Name: a.Name, Email: a.Email, Quantity: 2, Reason: "Too late."})
		}, []string{"Ada", "table for 2 on Thursday, 24 December 2026", "Too late.", a.ID}},
		{"We are looking forward to your visit", func() error { return mails.Remind(ctx, reservations.ReminderDue(accepted("reservation-a"))) },
			[]string{"Ada", "table for 2 on Thursday, 24 December 2026", "please cancel", a.ID}},
		{"Your reservation is cancelled", func() error { return mails.Cancel(ctx, cancelled) }, []string{"is cancelled", a.ID}},
	} {
		if err := test.send(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if got.Subject != test.name || got.To != a.Email || got.MessageID != event.ID {
			t.Errorf("%s: got %+v", test.name, got)
		}
		for _, text := range test.want {
			if !strings.Contains(got.Text, text) {
				t.Errorf("%s: no %q in\n%s", test.name, text, got.Text)
			}
		}
	}

	// With the site's address, the mail has a link to the receipt, and is the same otherwise.
	without := got.Text
	mails.Receipt = func(id string) string { return "https://tables.example.org/" + id }
	for name, send := range map[string]func() error{
		"confirm": func() error { return mails.Confirm(ctx, a) },
		"refuse": func() error {
			return mails.Refuse(ctx, reservations.ReservationRejected{ID: a.ID, Date: a.Date, Quantity: 1})
		},
		"cancel": func() error { return mails.Cancel(ctx, cancelled) },
		"keep":   func() error { return mails.KeepBooked(ctx, reservations.CancellationRefused{ID: a.ID, Date: a.Date}) },
		"remind": func() error { return mails.Remind(ctx, reservations.ReminderDue{ID: a.ID, Date: a.Date}) },
	} {
		if err := send(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if link := "https://tables.example.org/" + a.ID + "\n"; strings.Count(got.Text, link) != 1 || strings.Contains(without, "https") {
			t.Errorf("%s: want one link %s, and none without an address:\n%s\n%s", name, link, got.Text, without)
		}
	}

	fails = errors.New("no route to host")
	if err := mails.Confirm(ctx, a); !errors.Is(err, fails) {
		t.Errorf("a mailer that fails: got %v", err)
	}
}
