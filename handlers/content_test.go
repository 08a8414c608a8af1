package handlers_test

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// One ID, other content: a document and ReactOnce remember the first message and refuse the second. The other reactions
// remember none, and run for both. The first law of package channel names them.
func TestWhoRefusesOtherContentUnderAnID(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		register func(w *world, effect func() error)
		refuses  bool
	}{
		"decide": {refuses: true, register: func(w *world, effect func() error) {
			sent := values.New(w.Channels, "sent", values.Config[int]{})
			handlers.Decide(w.Registry, sent, func(Mail) string { return "all" }, func(n int, _ Mail) (int, []channel.Message, error) {
				return n + 1, nil, effect()
			})
		}},
		"react once": {refuses: true, register: func(w *world, effect func() error) {
			handlers.ReactOnce(w.Registry, "mails", func(context.Context, Mail) error { return effect() })
		}},
		"react": {register: func(w *world, effect func() error) {
			handlers.React(w.Registry, "mails", func(context.Context, Mail) error { return effect() })
		}},
		"reply": {register: func(w *world, effect func() error) {
			handlers.Reply(w.Registry, "mails", func(context.Context, Mail) ([]channel.Message, error) { return nil, effect() })
		}},
		"in turn": {register: func(w *world, effect func() error) {
			handlers.OneAtATime(w.Registry, "mails", func(Mail) string { return "all" }, func(context.Context, Mail) error { return effect() })
		}},
	} {
		for kind, id := range map[string]string{"an ID with a time": channel.NewID(), "a key": "mail-17"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, handlers.Config{})
				effects := 0
				c.register(w, func() error { effects++; return nil })
				if err := w.Registry.Err(); err != nil {
					t.Fatal(err)
				}
				for i, body := range []string{`{"to":"ada"}`, `{"to":"bob"}`} {
					p, err := w.Channels.Outbox().Pack(t.Context(), *envelope(id, "test.mail.v1", body))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := w.Store.Commit(t.Context(), storage.Work{Send: p.Sends}); err != nil {
						t.Fatal(err)
					}
					refused := c.refuses && i == 1
					err = w.one(t.Context(), "mails")
					if got := errors.Is(err, values.ErrContentDiffers); got != refused || !refused && err != nil {
						t.Errorf("message %d: got error %v, want it refused: %t", i+1, err, refused)
					}
				}
				if want := map[bool]int{true: 1, false: 2}[c.refuses]; effects != want {
					t.Errorf("got %d effects, want %d", effects, want)
				}
			})
		}
	}
}
