package values_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// onPlain runs a test in virtual time on a store without an atomic Commit, the only one that needs pending.
func onPlain(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual))) })
}

// dieSending applies one message in a process that dies before it sends any event.
func dieSending(t *testing.T, s *storage.Store, cfg values.Config[Account], id string, m Add) {
	t.Helper()
	var dead atomic.Bool
	dying := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if dead.Load() || op.Name == "send" {
			dead.Store(true)
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	p := newProcess(t, dying, cfg)
	e := worldtest.Envelope(id, m)
	worldtest.WantErr(t, p.apply("k", p.changeOf(&e))[0], storage.ErrUnavailable)
}

// No write is made only to clear pending. A writer leaves out the events that it has sent itself.
func TestNoWriteOnlyToClear(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[Account]{})
		ids := []string{newID(), newID(), newID()}
		for i, id := range ids {
			p.applied("k", p.change(id, 1))
			p.applied("k", p.change(id, 1)) // a replay
			worldtest.Want(t, "writes", calls.Count("put blob"), i+1)
			worldtest.Want(t, "pending", len(stored(t, s, "k").Pending), 1)
		}
		worldtest.Want(t, "reads", calls.Count("get blob"), 1)
		got := idsOf(worldtest.Take(t, s, "totals"))
		worldtest.Want(t, "events", len(got), 3)
		for id, n := range got {
			if n != 1 {
				t.Errorf("event %s was sent %d times by a process that knew it was sent", id, n)
			}
		}
	})
}

// Pending survives lost races, and a process still knows which events it has sent before.
func TestOwnSentIsRememberedAcrossARace(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		p, rival := newProcess(t, s, values.Config[Account]{}), newProcess(t, s, values.Config[Account]{})
		first, second := newID(), newID()
		p.applied("k", p.change(first, 1))
		rival.applied("k", rival.change(second, 1))
		worldtest.Want(t, "pending of two writers", len(stored(t, s, "k").Pending), 2)
		p.applied("k", p.change(newID(), 1)) // loses the race with its cached document
		worldtest.Want(t, "pending: the rival's and the new one", len(stored(t, s, "k").Pending), 2)
		worldtest.Want(t, "events", len(worldtest.Take(t, s, "totals")), 3)
	})
}

// The next writer sends the events of a dead writer once they are old enough, and not sooner. It sends them
// before the write that leaves them out.
func TestUnderstudySendsWhatADeadWriterDidNot(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		cfg := values.Config[Account]{PendingAfter: time.Minute}
		id := newID()
		dieSending(t, s, cfg, id, Add{Amount: 1})
		orphan := eventID("k", id)

		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), cfg)
		time.Sleep(59 * time.Second)
		p.applied("k", p.change(newID(), 1))
		if got := idsOf(worldtest.Take(t, s, "totals")); got[orphan] != 0 || len(got) != 1 {
			t.Errorf("before PendingAfter: got events %v, want only the writer's own", got)
		}
		worldtest.Want(t, "pending", len(stored(t, s, "k").Pending), 2)

		time.Sleep(2 * time.Second)
		before := len(calls.Ops())
		p.applied("k", p.change(newID(), 1))
		if got := idsOf(worldtest.Take(t, s, "totals")); got[orphan] != 1 {
			t.Errorf("after PendingAfter: got events %v, want %s among them", got, orphan)
		}
		order := ""
		for _, op := range calls.Ops()[before:] {
			order += op.Name + " "
		}
		if want := "send send put blob send send "; order != want {
			t.Errorf("calls: got %s, want %s", order, want)
		}
		worldtest.Want(t, "pending", len(stored(t, s, "k").Pending), 1)
	})
}

// If the next writer dies too, between its sends and its write, it leaves the events to the one after it.
func TestUnderstudyDies(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		cfg := values.Config[Account]{PendingAfter: time.Minute}
		id := newID()
		dieSending(t, s, cfg, id, Add{Amount: 1})
		orphan := eventID("k", id)
		time.Sleep(2 * time.Minute)
		for _, name := range []string{"send", "put blob"} {
			hooked := storagetest.Intercept(s, once(name, func(op storagetest.Op, _ func() error) error { return op.Fail(storage.ErrUnavailable) }))
			p := newProcess(t, hooked, cfg)
			worldtest.WantErr(t, p.apply("k", p.change(newID(), 1))[0], storage.ErrUnavailable)
			worldtest.Want(t, "pending", len(stored(t, s, "k").Pending), 1)
			worldtest.Take(t, s, "totals")
		}
		p := newProcess(t, s, cfg)
		p.applied("k", p.change(newID(), 1))
		if got := idsOf(worldtest.Take(t, s, "totals")); got[orphan] != 1 || len(got) != 2 {
			t.Errorf("got events %v, want %s and one more", got, orphan)
		}
	})
}

// A replay sends the events that are pending for it, and makes no write for that.
func TestReplaySendsItsPending(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		id := newID()
		dieSending(t, s, values.Config[Account]{}, id, Add{Amount: 1})
		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[Account]{})
		p.applied("k", p.change(id, 1))
		worldtest.Want(t, "events", idsOf(worldtest.Take(t, s, "totals"))[eventID("k", id)], 1)
		worldtest.Want(t, "writes", calls.Count("put blob"), 0)
		p.applied("k", p.change(newID(), 1))
		worldtest.Want(t, "pending: only the new one's", len(stored(t, s, "k").Pending), 1)
	})
}

func claims(t testing.TB, s *storage.Store) (stowed, sent int) {
	t.Helper()
	for _, key := range worldtest.Claims(t, s) {
		if strings.HasPrefix(key, "stowed/") {
			stowed++
		} else {
			sent++
		}
	}
	return stowed, sent
}

// Bodies too large for a message are kept beside the document. A replay or the next writer sends them whole, and
// they are deleted once the document leaves their events out.
func TestLargePending(t *testing.T) {
	for _, by := range []string{"replay", "understudy"} {
		t.Run(by, func(t *testing.T) {
			onPlain(t, func(t *testing.T, s *storage.Store) {
				large := largeNote()
				id := newID()
				dieSending(t, s, values.Config[Account]{}, id, large)
				if size := stored(t, s, "k").size; size > 2000 {
					t.Errorf("the document has %d bytes; want the large event beside it", size)
				}
				stowed, _ := claims(t, s)
				worldtest.Want(t, "stowed", stowed, 1)

				p := newProcess(t, s, values.Config[Account]{})
				if by == "replay" {
					e := worldtest.Envelope(id, large)
					p.applied("k", p.changeOf(&e))
				} else {
					time.Sleep(3 * time.Minute)
				}
				p.applied("k", p.change(newID(), 1))
				stowed, sent := claims(t, s)
				worldtest.Want(t, "stowed after the write that leaves it out", stowed, 0)
				worldtest.Want(t, "bodies of the copies sent, and orphans of the dead writer", sent, 4)
				arrived(t, s, id)
			})
		})
	}
}

// A replay reads a large pending event just as another writer deletes its body. The message is not lost: it fails for
// now, and the next time it finds that all is done.
func TestReplayMeetsPendingThatIsJustLetGo(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		large := largeNote()
		id := newID()
		e := worldtest.Envelope(id, large)
		writer := newProcess(t, s, values.Config[Account]{})
		writer.applied("k", writer.changeOf(&e))
		var done atomic.Bool
		p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if strings.HasPrefix(op.Resource, "blob claims/stowed/") && done.CompareAndSwap(false, true) {
				writer.applied("k", writer.change(newID(), 1))
			}
			return do()
		}), values.Config[Account]{})
		err := p.apply("k", p.changeOf(&e))[0]
		if err == nil || errors.Is(err, wire.ErrDataLost) {
			t.Errorf("got error %v; want one that does not say that the message's body is lost", err)
		}
		p.applied("k", p.changeOf(&e))
		worldtest.Want(t, "balance", p.Balance("k"), 2)
	})
}
