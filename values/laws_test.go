package values_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// The same ID with the same content is the same message.
func TestSameMessageIsAppliedOnce(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{})
		id, key := newID(), "order-7/pay"
		for range 3 { // one process
			p.applied("k", p.change(id, 5))
			p.applied("k", p.change(key, 7))
		}
		q := newProcess(t, s, values.Config[Account]{}) // another one
		q.applied("k", q.change(id, 5), q.change(key, 7))
		worldtest.Want(t, "balance", q.Balance("k"), 12)
		worldtest.Want(t, "applied messages", stored(t, s, "k").Version, 2)
	})
}

// The same ID with other content is refused, while the ID is in the window and after it became a row.
func TestSameIDOtherContentIsRefused(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{Window: 4})
		for _, id := range []string{newID(), "a-key"} {
			p.applied("k", p.change(id, 5))
			errs := p.apply("k", p.change(id, 6), p.change(newID(), 1))
			worldtest.WantErr(t, errs[0], values.ErrContentDiffers)
			worldtest.WantErr(t, errs[1], nil)
			for range 30 { // until it is a row
				time.Sleep(time.Millisecond)
				p.applied("k", p.change(newID(), 0))
			}
			if r := stored(t, s, "k"); !r.Left {
				t.Fatal("nothing has left the window")
			}
			worldtest.WantErr(t, p.apply("k", p.change(id, 6))[0], values.ErrContentDiffers)
			worldtest.WantErr(t, p.apply("k", p.change(id, 5))[0], nil)
		}
		worldtest.Want(t, "balance", p.Balance("k"), 12)
	})
}

// The kind is part of the content. The form of the JSON is not, because queues may rewrite it.
func TestContentIsKindAndMeaning(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{})
		id := newID()
		foreign := `{"specversion": "1.0", "id": "` + id + `", "source": "/x", "type": "test.add.v1", "data": { "to": "", "amount": 1, "note": "a\u003cb \"c\"" } }`
		e, err := wire.Decode([]byte(foreign))
		if err != nil {
			t.Fatal(err)
		}
		p.applied("k", p.changeOf(&e))
		body, err := e.Encode() // as a worker rewrites it after a failed attempt
		if err != nil {
			t.Fatal(err)
		}
		back, err := wire.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		p.applied("k", p.changeOf(&back))
		worldtest.Want(t, "balance", p.Balance("k"), 1)
		other := back
		other.Kind = "test.minus.v1"
		worldtest.WantErr(t, p.apply("k", p.changeOf(&other))[0], values.ErrContentDiffers)
		spaced := back
		spaced.Data = []byte(`{"to":"","amount":1,"note":"a<b  \"c\""}`)
		worldtest.WantErr(t, p.apply("k", p.changeOf(&spaced))[0], values.ErrContentDiffers)
	})
}

// Value and replay record are one document, and the ETag that was read guards each write.
func TestValueAndRecordAreWrittenTogetherUnderTheETag(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		rival := newProcess(t, s, values.Config[Account]{})
		for round, first := range []string{"creation", "update"} {
			hooked := storagetest.Intercept(s, once(writing(s), func(_ storagetest.Op, do func() error) error {
				rival.applied("k", rival.change(newID(), 10)) // after the read, before the write
				return do()
			}))
			p := newProcess(t, hooked, values.Config[Account]{})
			p.applied("k", p.change(newID(), 1))
			worldtest.Want(t, "folds at a lost "+first, int(p.folds.Load()), 2)
			worldtest.Want(t, "balance", p.Balance("k"), 11*(round+1))
			r := stored(t, s, "k")
			worldtest.Want(t, "entries", len(r.Applied)/entrySize, 2*(round+1))
			worldtest.Want(t, "version", r.Version, 2*(round+1))
		}
	})
}

// Write, then send, then delete.
func TestWriteThenSendThenDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls storagetest.Calls
		s := storagetest.Intercept(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), calls.Hook)
		p := newProcess(t, s, values.Config[Account]{})
		p.send(newID(), Add{Amount: 1})
		changes := p.received(1)
		before := len(calls.Ops())
		p.applied("k", changes...)
		var got []string
		for _, op := range calls.Ops()[before:] {
			got = append(got, op.Name+" "+op.Resource)
		}
		want := []string{"get blob blob accounts/k", "put blob blob accounts/k", "send queue audits", "send queue totals", "delete queue accounts"}
		if len(got) == len(want) {
			slices.Sort(got[2:4]) // the sends go out together
		}
		if !slices.Equal(got, want) {
			t.Errorf("calls: got %q, want %q", got, want)
		}
	})
}

// Whatever call a worker dies in, the message comes back. Its replay completes the missing steps, without
// deciding again.
func TestCrashAfterEveryCall(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(moment.String(), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				for n := int64(1); ; n += worldtest.Stride {
					if !crashAt(t, s, fmt.Sprintf("k-%d", n), n, moment) {
						if n < 3 {
							t.Errorf("no crash at call %d", n)
						}
						return
					}
				}
			})
		})
	}
}

// crashAt lets a worker die in its nth call while it applies two messages, one of them with a key, to a document that
// moves entries to rows with every write. Another worker finishes. It reports whether the first worker came so far.
func crashAt(t *testing.T, s *storage.Store, key string, n int64, moment storagetest.Moment) bool {
	cfg := values.Config[Account]{Window: 1}
	healthy := newProcess(t, s, cfg)
	sequence := map[string]uint64{}
	note := func() {
		for _, queue := range []string{"totals", "audits"} {
			seen := map[string]bool{}
			for _, e := range worldtest.Take(t, s, queue) {
				seen[e.ID] = true
				if old, ok := sequence[e.ID]; ok && old != e.Sequence {
					t.Errorf("call %d: event %s has sequence %d and %d", n, e.ID, old, e.Sequence)
				}
				sequence[e.ID] = e.Sequence
			}
		}
	}
	for range 2 {
		healthy.applied(key, healthy.change(newID(), 0))
	}
	healthy.applied(key, healthy.change("order-16", 0)) // it leaves the window meanwhile
	note()
	earlier := len(sequence)
	first, second := newID(), "order-17"
	healthy.send(first, Add{Amount: 1})
	healthy.send(second, Add{Amount: 10})

	dying, fuse := storagetest.Crash(s, n, moment)
	dead := newProcess(t, dying, cfg)
	changes, err := dead.receive(t.Context())
	if err == nil {
		dead.apply(key, changes...)
	}
	time.Sleep(visibility + time.Second)

	changes, err = healthy.receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	decided := stored(t, s, key).Version == 5
	healthy = newProcess(t, s, cfg) // without a cached document
	healthy.applied(key, changes...)
	healthy.applied(key, healthy.change("order-16", 0))
	if decided && healthy.folds.Load() > 0 {
		t.Errorf("call %d: decided again", n)
	}
	worldtest.Want(t, fmt.Sprintf("call %d: balance", n), healthy.Balance(key), 11)
	worldtest.Want(t, fmt.Sprintf("call %d: version", n), stored(t, s, key).Version, 5)
	worldtest.Want(t, fmt.Sprintf("call %d: commands left", n), worldtest.Queued(t, s, "accounts"), 0)
	note()
	worldtest.Want(t, fmt.Sprintf("call %d: distinct events", n), len(sequence)-earlier, 2)
	for _, id := range []string{first, second} {
		if _, ok := sequence[eventID(key, id)]; !ok {
			t.Errorf("call %d: no event of %s", n, id)
		}
	}
	return fuse.Fired()
}

// A stale receipt undoes neither the write nor the sends; the worker that has the message finds the record.
func TestStaleReceiptChangesNothing(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		slow, next := newProcess(t, s, values.Config[Account]{}), newProcess(t, s, values.Config[Account]{})
		slow.send(newID(), Add{Amount: 3})
		changes := slow.received(1)
		time.Sleep(visibility + time.Second)
		again := next.received(1)

		if got, want := slow.outcomes("k", changes...)[0], (values.Outcome{Ended: values.Stale}); got != want {
			t.Errorf("outcome of the delivery with a stale receipt: got %+v, want %+v", got, want)
		}
		worldtest.Want(t, "balance", slow.Balance("k"), 3)
		worldtest.Want(t, "commands left", worldtest.Queued(t, s, "accounts"), 1)
		first := worldtest.Take(t, s, "totals")
		worldtest.Want(t, "events", len(first), 1)

		if got, want := next.outcomes("k", again...)[0], (values.Outcome{Ended: values.Deleted}); got != want {
			t.Errorf("outcome of the replay: got %+v, want %+v", got, want)
		}
		worldtest.Want(t, "balance", slow.Balance("k"), 3)
		worldtest.Want(t, "folds of the replay", int(next.folds.Load()), 0)
		worldtest.Want(t, "commands left", worldtest.Queued(t, s, "accounts"), 0)
		for _, e := range worldtest.Take(t, s, "totals") {
			if e.ID != first[0].ID {
				t.Errorf("the replay sent event %s; want %s again or nothing", e.ID, first[0].ID)
			}
		}
	})
}

// A source's events count up by one, whatever process writes, and whatever is lost on the way.
func TestSequenceGrows(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		lost := storagetest.Intercept(s, everyOther(writing(s)))
		processes := []*process{newProcess(t, s, values.Config[Account]{}), newProcess(t, lost, values.Config[Account]{}), newProcess(t, s, values.Config[Account]{})}
		for i := range 30 {
			p := processes[i%3]
			id := newID()
			c := p.change(id, 1)
			fold := c.Fold
			c.Fold = func(v Account) (Account, []channel.Message, error) {
				v, es, err := fold(v)
				return v, append(es, es...), err
			}
			for p.apply("k", c)[0] != nil {
			}
		}
		newest := map[uint64]string{}
		for _, e := range worldtest.Take(t, s, "totals") {
			if e.Source != "/accounts/k" || e.Subject != "k" {
				t.Errorf("source %s, subject %s; want /accounts/k, k", e.Source, e.Subject)
			}
			if id, ok := newest[e.Sequence]; ok && id != e.ID {
				t.Errorf("two events with sequence %d", e.Sequence)
			}
			newest[e.Sequence] = e.ID
		}
		for n := uint64(1); n <= 60; n++ {
			if newest[n] == "" {
				t.Errorf("no event with sequence %d", n)
			}
		}
		worldtest.Want(t, "sequences", len(newest), 60)
		d, err := processes[0].Accounts.Get(t.Context(), "k", "")
		if err != nil || d.Emitted != 60 || d.Version != 30 {
			t.Errorf("got %+v, %v; want 60 events emitted by 30 messages", d, err)
		}
	})
}
