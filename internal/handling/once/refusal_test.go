package once_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// A message older than the retention of notes is refused, without a guess.
func TestOnceTooOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		var effect counted
		guarded := guard(s, "mails", effect.do)
		id := worldtest.IDAt(time.Now(), 0)
		run := func(id string) error {
			return guarded(wire.WithHandling(t.Context(), envelope(id, "test.added.v1", "{}"), "mails", nil))
		}
		if err := run(id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30*24*time.Hour + time.Second)
		err := run(id)
		if got := verdict.Judge(err); got.Action != verdict.ToPoison || got.Reason != verdict.ReasonTooOld {
			t.Errorf("got %+v, want it in the poison queue as too old", got)
		}
		effect.want(t, 1)
	})
}

// Another message with the same ID does not count as a copy.
func TestOnceContentDiffers(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	var effect counted
	guarded := guard(s, "mails", effect.do)
	run := func(body string) error {
		return guarded(wire.WithHandling(t.Context(), envelope("an order", "test.added.v1", body), "mails", nil))
	}
	if err := run(`{"to":"ada"}`); err != nil {
		t.Fatal(err)
	}
	err := run(`{"to":"bob"}`)
	if got := verdict.Judge(err); got.Action != verdict.ToPoison || got.Reason != verdict.ReasonContentDiffers {
		t.Errorf("got %+v, want it in the poison queue", got)
	}
	if err := run(`{"to":"ada"}`); err != nil {
		t.Errorf("a copy: got %v, want nil", err)
	}
	effect.want(t, 1)
}
