package operator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// haltAs halts a key of the accounts by a message.
func (x *stranger) haltAs(t *testing.T, key, message string, sequence uint64) {
	t.Helper()
	ts, err := keylock.New(x.Store, worldtest.Accounts, keylock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	held, err := ts.Take(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := held.State()
	s.Halt(message, "closed", sequence)
	if err := held.End(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// Settling the message that halted a key says that the key stays halted, until when, and by which command it goes on.
// Messages that halted none get no such note.
func TestSettlingTellsOfHaltedKeys(t *testing.T) {
	t.Parallel()
	const stays = `Note: key "it's ada" of queue accounts stays halted`
	const release = `millrace turns release accounts 'it'\''s ada' --why TEXT lets `
	for _, c := range []struct {
		name     string
		args     []string
		sequence uint64
		want     string // after stays; empty: nothing is told
		json     string
	}{
		{"discard", []string{"discard", "-why", "x", "-yes", "-id"}, 0, ", and its other messages wait. " + release + "them go on.", `"result":"discarded","halted":"it's ada"}`},
		{"retry", []string{"retry", "-id"}, 0, " until message ID is done. " + release + "the others of the key go on before.", `"result":"sent back","halted":"it's ada"}`},
		{"edit", []string{"edit", "-why", "x", "-again", "-data", "-"}, 0, ", and the edited message waits with the others. " + release + "them go on.", `"result":"sent","halted":"it's ada"}`},
		{"edit of an event in order", []string{"edit", "-why", "x", "-again", "-data", "-"}, 7, " until message NEW is done. " + release + "the others of the key go on before.", `"result":"sent","halted":"it's ada"}`},
		{"dry run", []string{"discard", "-dry-run", "-id"}, 0, "", `"result":"selected"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, form := range [][]string{nil, {"-json"}} {
				x := newStranger(t, worldtest.OpenStore(t, ""))
				x.haltAs(t, "bob", "another message", 0)
				id := x.poisoned(t, worldtest.Add{To: "ada", Amount: 1})
				x.haltAs(t, "it's ada", id, c.sequence)
				args := slices.Concat([]string{"poison"}, c.args, []string{id, "-queue", worldtest.Accounts}, form)
				code, out, told := x.do(t, `{"to":"ada","amount":2}`, args...)
				sent := ""
				if _, after, ok := strings.Cut(out, "Sent "); ok {
					sent, _, _ = strings.Cut(after, " ")
				}
				want := strings.NewReplacer("ID", id, "NEW", sent).Replace(c.want)
				switch {
				case code != 0:
					t.Fatalf("got exit code %d, %s%s", code, out, told)
				case c.want == "" && strings.Contains(told, "halted"), strings.Contains(told, "bob"), c.want != "" && !strings.Contains(told, stays):
					t.Errorf("got %s", told)
				case form == nil && c.want != "":
					contains(t, "for people", told, stays+want)
				case form != nil:
					contains(t, "JSON", out, c.json)
				}
			}
		})
	}
}

// An entry whose key isn't halted any more gets no note, and keys that can't be listed keep nobody from settling.
func TestSettlingWithoutHaltedKeys(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	id := x.poisoned(t, worldtest.Add{To: "ada", Amount: 1})
	x.haltAs(t, "ada", id, 0)
	x.want(t, 0, "", "turns", "release", worldtest.Accounts, "ada", "-why", "x")
	if out := x.want(t, 0, "", "poison", "retry", "-id", id); strings.Contains(out, "halted") {
		t.Errorf("released: got %s", out)
	}
	x.fail = func(worldtest.Add) error { return handlers.Poison("closed", errors.New("closed")) }
	x.work(t)
	away := storagetest.Intercept(x.Store, func(_ context.Context, op storagetest.Op, do func() error) error {
		if strings.Contains(op.Resource, "turns") {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	code, out, told := x.doOn(t, away, "", "poison", "discard", "-why", "x", "-yes", "-id", id)
	if code != 0 {
		t.Errorf("got exit code %d", code)
	}
	contains(t, "unknown", out+told, "Discarded 1 message.", "Note: whether keys stay halted is unknown: ", "millrace turns list accounts tells it.")
}
