package reservations_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

func TestMessageIDs(t *testing.T) {
	t.Parallel()
	timed := channel.NewID()
	seen := map[string]string{}
	for _, id := range []string{"reservation-a", "reservation-b", timed, strings.ToUpper(timed)} {
		first := reservations.MakeReservation{ID: id}.MessageID()
		cancelled := reservations.CancelReservation{ID: id}.MessageID()
		if again := (reservations.MakeReservation{ID: id, Name: "Ada"}).MessageID(); again != first {
			t.Errorf("%s: got %s and %s, want one reservation to be one message", id, first, again)
		}
		// Nobody can make a reservation whose message has the ID of a cancellation's message.
		reminder := reservations.ReminderDue{ID: id}.MessageID()
		if again := (reservations.ReminderDue{ID: id, Name: "Ada"}).MessageID(); again != reminder {
			t.Errorf("%s: got %s and %s, want all reminders to be one message", id, reminder, again)
		}
		for what, m := range map[string]string{"make": first, "cancel": cancelled, "reminder": reminder, "make with the ID of cancel": reservations.MakeReservation{ID: cancelled}.MessageID()} {
			if strings.Contains(m, id) {
				t.Errorf("%s %s: the message's ID %s tells the reservation's", what, id, m)
			}
			if other := seen[m]; other != "" {
				t.Errorf("%s %s: has the ID of %s", what, id, other)
			}
			seen[m] = what + " " + id
		}
		want, timed := channel.IDTime(id)
		if got, ok := channel.IDTime(first); ok != timed || !got.Equal(want) {
			t.Errorf("%s: got the time %v (%v), want %v (%v)", id, got, ok, want, timed)
		}
		for _, m := range []string{cancelled, reminder} {
			if got, ok := channel.IDTime(m); ok {
				t.Errorf("%s of %s: got the time %v, want none: it may come long after", m, id, got)
			}
		}
	}
}

// A reservation's ID is the right to cancel it. No name holds it, so whatever fails, no log line, error or metric can
// hold it. Here each storage call fails once, and so does each mail.
func TestNoLogHoldsTheRightToCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "r.db")+"?wake=off&sync=normal")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		var failed sync.Map
		broken := storagetest.Intercept(storagetest.Plain(file), func(_ context.Context, op storagetest.Op, do func() error) error {
			if _, before := failed.LoadOrStore(op.Name+" "+op.Resource, op); op.Name != "stats" && !before {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		var out bytes.Buffer // written by one logger, read after the end
		log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		channels := sampleChannels(t, broken)
		h := handlers.NewRegistry(channels, handlers.Config{Logger: log})
		var mailed sync.Map
		reservations.Register(h, crashSeats, reservations.Mails{
			Mailer: mailerFunc(func(_ context.Context, m reservations.Mail) error {
				if _, before := mailed.LoadOrStore(m.Subject, m); !before {
					return errors.New("no server")
				}
				return nil
			}),
			Receipt: func(id string) string { return "https://tables.example.org/reservations/" + id },
		}, numbers(t, broken), nil)
		w, err := worker.New(h, worker.Config{Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()

		plain := sampleChannels(t, file)
		made := reservations.MakeReservation{ID: channel.NewID(), Date: crashDate, Name: "Ada", Email: "ada@example.org", Quantity: crashSeats}
		refused := made
		refused.ID = "chosen-by-a-client"
		sendAll(t, plain, made, made, refused) // the second one is a repeat
		if c, err := reservations.Capacities(plain, crashSeats).Get(t.Context(), crashDate, ""); err != nil || c.Version != 2 || len(c.Value.Accepted) != 1 {
			t.Errorf("value object: got %+v (%v), want two decisions of three messages", c, err)
		}
		sendAll(t, plain, reservations.CancelReservation{ID: made.ID, Date: made.Date})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}

		status, err := reservations.Statuses(plain).Get(t.Context(), reservations.Key(made.ID))
		if err != nil || status.Status != reservations.Cancelled {
			t.Errorf("status: got %+v (%v), want cancelled", status, err)
		}
		for _, said := range []string{`"handler":"react ledger"`, `"handler":"react mails"`, "can't record how a delivery ended", "can't receive"} {
			if !strings.Contains(out.String(), said) {
				t.Errorf("the log doesn't say %s; the test must see it to prove anything", said)
			}
		}
		for line := range strings.Lines(out.String()) {
			for _, id := range []string{made.ID, refused.ID} {
				if strings.Contains(line, id) {
					t.Errorf("a log line holds a reservation's ID: %s", line)
				}
			}
		}
		failed.Range(func(name, _ any) bool {
			if s := name.(string); strings.Contains(s, made.ID) || strings.Contains(s, refused.ID) {
				t.Errorf("the resource %q holds a reservation's ID: every error about it would", s)
			}
			return true
		})
	})
}

// sendAll sends messages of one type and waits until all their effects are done.
func sendAll[M channel.Message](t *testing.T, c *channel.Channels, messages ...M) {
	t.Helper()
	sender, err := channel.NewSender[M](c)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := sender.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for began := time.Now(); queued(t, c.Store(), c) > 0; time.Sleep(time.Second) {
		if time.Since(began) > time.Hour {
			t.Fatal("the queues don't get empty")
		}
	}
}
