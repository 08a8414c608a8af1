package handlers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// A decision emits commands as it emits events: the command goes to its queue, with an ID derived from the message.
func TestDecisionEmitsCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(v Account, c Add) (Account, []channel.Message, error) {
		v, _, err := v.Add(c)
		return v, []channel.Message{Added{To: c.To, Amount: c.Amount}, Mail{To: c.To}}, err
	}, Added{}, Mail{})
	worldtest.Send(w.World, Add{To: "ada", Amount: 5})
	w.mustDrain("accounts")
	mails := worldtest.Take(t, w.Store, "mails")
	if len(mails) != 1 || mails[0].Subject != "ada" || mails[0].Causation == "" {
		t.Fatalf("got mails %+v, want one that follows from the command", mails)
	}
}

// A value object takes an event of a subscriber group, and emits.
func TestOnTakesEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	w.Decide()
	handlers.On(w.Registry, "audits", w.Accounts, func(e Added) string { return "audit-" + e.To }, func(v Account, e Added) (Account, []channel.Message, error) {
		v.Balance += e.Amount
		return v, []channel.Message{Mail{To: e.To}}, nil
	}, Mail{})
	worldtest.Send(w.World, Add{To: "ada", Amount: 5})
	w.mustDrain("accounts")
	w.mustDrain("audits")
	if got := w.Balance("audit-ada"); got != 5 {
		t.Errorf("got balance %d, want 5", got)
	}
	if got := worldtest.Take(t, w.Store, "mails"); len(got) != 1 {
		t.Errorf("got %d mails, want 1", len(got))
	}
	if err := w.Registry.Err(); err != nil {
		t.Error(err)
	}
}

// A delay counts from the decision, and the emission's ID has the time when it is due.
func TestEmissionIsDueLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handlers.Config{})
		at := time.Now().Add(3 * time.Hour)
		handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(v Account, c Add) (Account, []channel.Message, error) {
			return v, []channel.Message{channel.After(time.Hour, Mail{To: "after"}), channel.At(at, Mail{To: "at"}), channel.At(time.Time{}.Add(1), Mail{To: "past"})}, nil
		}, channel.After(0, Mail{}))
		worldtest.Send(w.World, Add{To: "ada"})
		time.Sleep(time.Minute) // the command waits
		decided := time.Now()
		w.mustDrain("accounts")
		for _, want := range []struct {
			to  string
			due time.Time
		}{{"past", time.Time{}}, {"after", decided.Add(time.Hour)}, {"at", at}} {
			if !want.due.IsZero() {
				time.Sleep(time.Until(want.due) - time.Second)
				if n := len(worldtest.Take(t, w.Store, "mails")); n != 0 {
					t.Errorf("%s: got %d mails a second before it is due, want none", want.to, n)
				}
				time.Sleep(time.Second)
			}
			got := worldtest.Take(t, w.Store, "mails")
			if len(got) != 1 || !strings.Contains(string(got[0].Data), want.to) || !got[0].Due.Equal(want.due) {
				t.Fatalf("%s: got %+v, want it due at %v", want.to, got, want.due)
			}
			if id, _ := channel.IDTime(got[0].ID); !want.due.IsZero() && id.UnixMilli() != want.due.UnixMilli() {
				t.Errorf("%s: got ID of %v, want of %v", want.to, id, want.due)
			}
		}
	})
}

// A handler sends through its context, without a sender of its own.
func TestSendThroughTheContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.React(w.Registry, "audits", func(ctx context.Context, e Added) error { return channel.Send(ctx, Mail{To: e.To}) })
	worldtest.Send(w.World, Added{To: "ada"})
	if err := w.one(t.Context(), "audits"); err != nil {
		t.Fatal(err)
	}
	if got := worldtest.Take(t, w.Store, "mails"); len(got) != 1 {
		t.Errorf("got %d mails, want 1", len(got))
	}
	if err := channel.Send(t.Context(), Mail{}); err == nil || !strings.Contains(err.Error(), "not that of a handler") {
		t.Errorf("outside of a handler: got error %v", err)
	}
}

// Checked is a message with a check of its own.
type Checked struct {
	N int `json:"n"`
}

// Kind is the name on the wire.
func (Checked) Kind() channel.Kind { return "test.checked.v1" }

// Check refuses negative numbers.
func (c Checked) Check() error {
	if c.N < 0 {
		return errors.New("n is negative")
	}
	return nil
}

// A message that its own Check refuses isn't sent, and is poison where it comes from elsewhere.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	w := worldtest.NewBare(t, s, handlers.Config{}, channel.Command[Checked]("checks"))
	handlers.React(w.Registry, "checks", nothing[Checked])
	for _, err := range []error{
		w.Channels.Send(t.Context(), Checked{N: 1}, Checked{N: -1}),
		worldtest.SenderOf[Checked](t, w.Channels).Send(t.Context(), Checked{N: -1}),
		w.Channels.Send(t.Context(), channel.After(time.Second, Checked{N: -1})),
	} {
		if !errors.Is(err, channel.ErrRefused) || !strings.Contains(err.Error(), "n is negative") {
			t.Errorf("got error %v, want %v", err, channel.ErrRefused)
		}
	}
	if n := worldtest.Queued(t, s, "checks"); n != 0 {
		t.Errorf("got %d messages, want none", n)
	}
	_, err := w.Registry.Resolve("checks", envelope(channel.NewID(), "test.checked.v1", `{"n":-1}`))
	if v := handlers.Judge(err); v.Action != handlers.ToPoison || v.Reason != handlers.ReasonRefused {
		t.Errorf("got verdict %+v, want poison", v)
	}
}
