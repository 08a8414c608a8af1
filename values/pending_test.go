package values_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// onPlain runs a test in virtual time on a store without an atomic Commit, the only one that needs pending.
func onPlain(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, storagetest.Plain(open(t))) })
}

// dieSending applies one message in a process that dies before it sends any event.
func dieSending(t *testing.T, s *storage.Store, cfg values.Config[sum], id string, m plus) {
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
	e := envelope(t, id, m)
	wantErr(t, p.apply("k", p.changeOf(&e))[0], storage.ErrUnavailable)
}

// No write is made only to clear pending. A writer leaves out the events that it has sent itself.
func TestNoWriteOnlyToClear(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[sum]{})
		ids := []string{newID(), newID(), newID()}
		for i, id := range ids {
			p.applied("k", p.change(id, 1))
			p.applied("k", p.change(id, 1)) // a replay
			wantInt(t, "writes", calls.Count("put blob"), i+1)
			wantInt(t, "pending", len(stored(t, s, "k").Pending), 1)
		}
		wantInt(t, "reads", calls.Count("get blob"), 1)
		got := idsOf(events(t, s, "listeners"))
		wantInt(t, "events", len(got), 3)
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
		p, rival := newProcess(t, s, values.Config[sum]{}), newProcess(t, s, values.Config[sum]{})
		first, second := newID(), newID()
		p.applied("k", p.change(first, 1))
		rival.applied("k", rival.change(second, 1))
		wantInt(t, "pending of two writers", len(stored(t, s, "k").Pending), 2)
		p.applied("k", p.change(newID(), 1)) // loses the race with its cached document
		wantInt(t, "pending: the rival's and the new one", len(stored(t, s, "k").Pending), 2)
		wantInt(t, "events", len(events(t, s, "listeners")), 3)
	})
}

// The next writer sends the events of a dead writer once they are old enough, and not sooner. It sends them
// before the write that leaves them out.
func TestUnderstudySendsWhatADeadWriterDidNot(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		cfg := values.Config[sum]{PendingAfter: time.Minute}
		id := newID()
		dieSending(t, s, cfg, id, plus{N: 1})
		orphan := eventID("k", id)

		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), cfg)
		time.Sleep(59 * time.Second)
		p.applied("k", p.change(newID(), 1))
		if got := idsOf(events(t, s, "listeners")); got[orphan] != 0 || len(got) != 1 {
			t.Errorf("before PendingAfter: got events %v, want only the writer's own", got)
		}
		wantInt(t, "pending", len(stored(t, s, "k").Pending), 2)

		time.Sleep(2 * time.Second)
		before := len(calls.Ops())
		p.applied("k", p.change(newID(), 1))
		if got := idsOf(events(t, s, "listeners")); got[orphan] != 1 {
			t.Errorf("after PendingAfter: got events %v, want %s among them", got, orphan)
		}
		order := ""
		for _, op := range calls.Ops()[before:] {
			order += op.Name + " "
		}
		if want := "send send put blob send send "; order != want {
			t.Errorf("calls: got %s, want %s", order, want)
		}
		wantInt(t, "pending", len(stored(t, s, "k").Pending), 1)
	})
}

// If the next writer dies too, between its sends and its write, it leaves the events to the one after it.
func TestUnderstudyDies(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		cfg := values.Config[sum]{PendingAfter: time.Minute}
		id := newID()
		dieSending(t, s, cfg, id, plus{N: 1})
		orphan := eventID("k", id)
		time.Sleep(2 * time.Minute)
		for _, name := range []string{"send", "put blob"} {
			hooked := storagetest.Intercept(s, once(name, func(op storagetest.Op, _ func() error) error { return op.Fail(storage.ErrUnavailable) }))
			p := newProcess(t, hooked, cfg)
			wantErr(t, p.apply("k", p.change(newID(), 1))[0], storage.ErrUnavailable)
			wantInt(t, "pending", len(stored(t, s, "k").Pending), 1)
			events(t, s, "listeners")
		}
		p := newProcess(t, s, cfg)
		p.applied("k", p.change(newID(), 1))
		if got := idsOf(events(t, s, "listeners")); got[orphan] != 1 || len(got) != 2 {
			t.Errorf("got events %v, want %s and one more", got, orphan)
		}
	})
}

// A replay sends the events that are pending for it, and makes no write for that.
func TestReplaySendsItsPending(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		id := newID()
		dieSending(t, s, values.Config[sum]{}, id, plus{N: 1})
		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[sum]{})
		p.applied("k", p.change(id, 1))
		wantInt(t, "events", idsOf(events(t, s, "listeners"))[eventID("k", id)], 1)
		wantInt(t, "writes", calls.Count("put blob"), 0)
		p.applied("k", p.change(newID(), 1))
		wantInt(t, "pending: only the new one's", len(stored(t, s, "k").Pending), 1)
	})
}

func claims(t testing.TB, s *storage.Store) (stowed, sent int) {
	t.Helper()
	for info, err := range s.Blobs("claims").List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(info.Key, "stowed/") {
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
				large := plus{N: 1, Note: strings.Repeat("long ", 20_000)}
				id := newID()
				dieSending(t, s, values.Config[sum]{}, id, large)
				if size := stored(t, s, "k").size; size > 2000 {
					t.Errorf("the document has %d bytes; want the large event beside it", size)
				}
				stowed, _ := claims(t, s)
				wantInt(t, "stowed", stowed, 1)

				p := newProcess(t, s, values.Config[sum]{})
				if by == "replay" {
					e := envelope(t, id, large)
					p.applied("k", p.changeOf(&e))
				} else {
					time.Sleep(3 * time.Minute)
				}
				p.applied("k", p.change(newID(), 1))
				stowed, sent := claims(t, s)
				wantInt(t, "stowed after the write that leaves it out", stowed, 0)
				wantInt(t, "bodies of the copies sent, and orphans of the dead writer", sent, 4)

				channels, err := channel.New(s, &channel.Routes{}, "/test")
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events(t, s, "listeners") {
					if e.ID != eventID("k", id) {
						continue
					}
					if err := channels.Fetch(t.Context(), &e); err != nil {
						t.Fatal(err)
					}
					if want := envelope(t, id, large).Data; string(e.Data) != string(want) {
						t.Errorf("event's body: got %d bytes, want %d", len(e.Data), len(want))
					}
				}
			})
		})
	}
}

// A replay reads a large pending event just as another writer deletes its body. The message is not lost: it fails for
// now, and the next time it finds that all is done.
func TestReplayMeetsPendingThatIsJustLetGo(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		large := plus{N: 1, Note: strings.Repeat("long ", 20_000)}
		id := newID()
		e := envelope(t, id, large)
		writer := newProcess(t, s, values.Config[sum]{})
		writer.applied("k", writer.changeOf(&e))
		var done atomic.Bool
		p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if strings.HasPrefix(op.Resource, "blob claims/stowed/") && done.CompareAndSwap(false, true) {
				writer.applied("k", writer.change(newID(), 1))
			}
			return do()
		}), values.Config[sum]{})
		err := p.apply("k", p.changeOf(&e))[0]
		if err == nil || errors.Is(err, channel.ErrDataLost) {
			t.Errorf("got error %v; want one that does not say that the message's body is lost", err)
		}
		p.applied("k", p.changeOf(&e))
		wantInt(t, "total", total(t, p.sums, "k"), 2)
	})
}
