package handlers_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/tracing/tracingtest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
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

// Two groups may take the same event to the same value object: it changes once for each, and so do their emissions go
// out once for each. A tracer changes nothing in that.
func TestGroupsTakeAnEventToTheSameValueObject(t *testing.T) {
	t.Parallel()
	for name, channels := range map[string]func(*channel.Channels) *channel.Channels{
		"plain":  nil,
		"traced": func(c *channel.Channels) *channel.Channels { return c.TraceWith(tracingtest.New(t).Provider) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takeToTheSameValueObject(t, channels)
		})
	}
}

func takeToTheSameValueObject(t *testing.T, channels func(*channel.Channels) *channel.Channels) {
	w := &world{t: t, log: worldtest.NewLog(), claims: map[*handlers.Delivery]storage.Claim{}}
	w.World = worldtest.New(t, worldtest.OpenStore(t, worldtest.Virtual), worldtest.Config{
		Groups: []string{"totals", "audits", "checks"}, Routes: []channel.Route{channel.Command[Mail]("mails")}, Channels: channels,
	})
	for _, group := range []string{"audits", "checks"} {
		handlers.On(w.Registry, group, w.Accounts, Added.Subject, func(v Account, e Added) (Account, []channel.Message, error) {
			v.Balance += e.Amount
			return v, []channel.Message{Mail{To: group}}, nil
		}, Mail{})
	}
	worldtest.Send(w.World, Added{To: "ada", Amount: 5})
	w.mustDrain("audits")
	w.mustDrain("checks")
	if got := w.Balance("ada"); got != 10 {
		t.Errorf("got balance %d, want 5 from each group", got)
	}
	got := worldtest.Take(t, w.Store, "mails")
	if len(got) != 2 || got[0].ID == got[1].ID {
		t.Errorf("got mails %+v, want two messages", got)
	}
	if err := w.Registry.Err(); err != nil {
		t.Error(err)
	}
}

// A decision may emit a command for its own value object. It is decided in a unit of work of its own.
func TestDecisionEmitsACommandForItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(v Account, c Add) (Account, []channel.Message, error) {
		v.Balance += c.Amount
		if c.Amount == 1 {
			return v, nil, nil
		}
		return v, []channel.Message{Add{To: c.To, Amount: c.Amount - 1}}, nil
	}, Add{})
	worldtest.Send(w.World, Add{To: "ada", Amount: 4})
	for left := 3; left >= 0; left-- {
		w.mustDrain("accounts")
		if got := worldtest.Queued(t, w.Store, "accounts"); got != min(left, 1) {
			t.Fatalf("got %d commands after that, want %d", got, min(left, 1))
		}
	}
	if got := w.Balance("ada"); got != 4+3+2+1 {
		t.Errorf("got balance %d, want 10", got)
	}
}

// A middleware that ends a command without its decision leaves nothing to be emitted, then or later.
func TestSkippedDecisionEmitsNothing(t *testing.T) {
	t.Parallel()
	var skip atomic.Bool
	w := newWorld(t, handlers.Config{Middleware: []handlers.Middleware{func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error {
			if skip.Load() {
				return nil
			}
			return next(ctx, d)
		}
	}}})
	w.Decide()
	for _, skipped := range []bool{true, false} {
		skip.Store(skipped)
		worldtest.Send(w.World, Add{Key: "same", To: "ada", Amount: 5})
		w.mustDrain("accounts")
	}
	if n := worldtest.Queued(t, w.Store, "totals"); n != 0 || w.Balance("ada") != 0 {
		t.Errorf("got %d events and balance %d, want none", n, w.Balance("ada"))
	}
}

// An emission that is declared as a nil pointer has no kind; the fault says so.
func TestDeclaredNil(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, Account.Add, Added{}, (*Refused)(nil))
	if err := w.Registry.Err(); err == nil || !strings.Contains(err.Error(), "emission 2 of 2 is nil") {
		t.Errorf("got error %v", err)
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
	_, err := w.Registry.Inside().Handlers.Resolve("checks", envelope(channel.NewID(), "test.checked.v1", `{"n":-1}`))
	if v := verdict.Judge(err); v.Action != verdict.ToPoison || v.Reason != handlers.ReasonRefused {
		t.Errorf("got verdict %+v, want poison", v)
	}
}
