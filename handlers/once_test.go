package handlers_test

import (
	"context"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// Registered by ReactOnce: the second copy of an event is skipped, and its delivery ends well.
func TestOnceInAReaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	effects := 0
	handlers.ReactOnce(w.Registry, "mails", func(ctx context.Context, _ Mail) error {
		if e, _, ok := channel.Handled(ctx); !ok || e.ID == "" {
			t.Error("the effect can't find out the message's ID")
		}
		effects++
		return nil
	})
	e := envelope(channel.NewID(), "test.mail.v1", `{"to":"ada"}`)
	for range 2 {
		p, err := w.Channels.Outbox().Pack(t.Context(), *e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Store.Commit(t.Context(), storage.Work{Send: p.Sends}); err != nil {
			t.Fatal(err)
		}
	}
	w.mustDrain("mails")
	if effects != 1 {
		t.Errorf("got %d effects, want 1", effects)
	}
	if n := worldtest.Queued(t, w.Store, "mails"); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}
