package handlers_test

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// A panic with nil is a panic, also where GODEBUG has panicnil=1 and recover returns nil. The value stays as it was,
// and nobody takes the message for handled.
func TestAPanicWithNilIsAFailure(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	w := newWorld(t, handlers.Config{})
	var bad bool
	handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(a Account, m Add) (Account, []channel.Message, error) {
		if bad {
			panic(nil)
		}
		return a.Add(m)
	}, Added{}, Refused{})
	handlers.React(w.Registry, "audits", func(context.Context, Added) error { panic(nil) })
	handlers.ReactOnce(w.Registry, "mails", func(context.Context, Mail) error { panic(nil) })
	worldtest.Send(w.World, Add{To: "ada", Amount: 5})
	if err := w.one(t.Context(), "accounts"); err != nil {
		t.Fatal(err)
	}
	bad = true
	worldtest.Send(w.World, Add{To: "ada", Amount: 7})
	wantPanic := func(queue string) {
		t.Helper()
		var p *handlers.PanicError
		if err := w.one(t.Context(), queue); !errors.As(err, &p) || p.Stack == "" {
			t.Errorf("%s: got %v, want a panic and where", queue, err)
		}
	}
	wantPanic("accounts")
	s, err := w.Accounts.Get(t.Context(), "ada", "")
	if err != nil || s.Value.Balance != 5 {
		t.Errorf("got %+v, %v; want the balance of before, 5", s.Value, err)
	}
	wantPanic("audits")
	worldtest.Send(w.World, Mail{To: "ada"})
	wantPanic("mails")
}
