package values_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// Book is a value that knows by their notes which messages it has taken. An Add without a note it leaves to the record.
type Book struct {
	Notes map[string]int `json:"notes"`
	Sum   int            `json:"sum"`
}

// take folds a message. A note that the book has changes nothing, and a negative amount never does.
func (b Book) take(m Add) (Book, []channel.Message, error) {
	if _, known := b.Notes[m.Note]; m.Note != "" && known || m.Amount < 0 {
		return Book{}, []channel.Message{Added{}}, fmt.Errorf("take: %w", values.ErrUnchanged)
	}
	if m.Note != "" {
		if b.Notes == nil {
			b.Notes = map[string]int{}
		}
		b.Notes[m.Note] = m.Amount
	}
	b.Sum += m.Amount
	return b, []channel.Message{Added{To: m.To, Amount: m.Amount, Note: m.Note}}, nil
}

func knowsNote(e *channel.Envelope) bool { return strings.Contains(string(e.Data), `"note"`) }

// books is a process with a collection of books.
type books struct {
	*process
	all   *values.Collection[Book]
	folds int
}

func newBooks(t testing.TB, s *storage.Store) *books {
	p := newProcess(t, s, values.Config[Account]{})
	return &books{process: p, all: values.New(p.Channels, "books", values.Config[Book]{
		Idempotent: knowsNote, Window: 2, PendingAfter: time.Minute, Retention: 30 * 24 * time.Hour,
	})}
}

func (b *books) changes(ms ...channel.Envelope) []values.Change[Book] {
	all := make([]values.Change[Book], len(ms))
	for i := range ms {
		all[i] = values.Change[Book]{Envelope: &ms[i], Fold: func(v Book) (Book, []channel.Message, error) {
			b.folds++
			var m Add
			if err := json.Unmarshal(ms[i].Data, &m); err != nil {
				return v, nil, err
			}
			return v.take(m)
		}}
	}
	return all
}

func (b *books) take(key string, ms ...channel.Envelope) []error {
	return errsOf(b.all.Apply(b.t.Context(), key, b.changes(ms...), nil))
}

func (b *books) taken(key string, ms ...channel.Envelope) {
	b.t.Helper()
	worldtest.WantErr(b.t, errors.Join(b.take(key, ms...)...), nil)
}

func (b *books) want(key string, sum int, version uint64) {
	b.t.Helper()
	got, err := b.all.Get(b.t.Context(), key, "")
	if err != nil || got.Value.Sum != sum || got.Version != version {
		b.t.Errorf("%s: got sum %d, version %d, error %v; want %d and %d", key, got.Value.Sum, got.Version, err, sum, version)
	}
}

// entries are how many messages the document's record and its rows have.
func (b *books) entries(key string) (window, rows int) {
	b.t.Helper()
	blob, err := b.Store.Blobs("books").Get(b.t.Context(), key, "")
	if err != nil {
		b.t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(blob.Body, &r); err != nil {
		b.t.Fatal(err)
	}
	for _, err := range b.Store.Table("books-applied").Query(b.t.Context(), key, storage.RowRange{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		rows++
	}
	return len(r.Applied) / entrySize, rows
}

// A message that the value itself recognises is never too old, never differs, and leaves neither entry nor row.
func TestValueRecognisesRepeatsByItself(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		b := newBooks(t, s)
		id := newID()
		b.taken("k", worldtest.Envelope(id, Add{Amount: 5, Note: "a"}))
		for range 100 { // 10,000 repeats
			var copies []channel.Envelope
			for range 100 {
				copies = append(copies, worldtest.Envelope(id, Add{Amount: 5, Note: "a"}))
			}
			b.taken("k", copies...)
		}
		b.want("k", 5, 1)
		for range 6 { // others push each other out of the window
			time.Sleep(time.Millisecond)
			b.taken("k", worldtest.Envelope(newID(), Add{Amount: 1}))
		}
		window, rows := b.entries("k")
		worldtest.Want(t, "entries and rows", window+rows, 6)
		b.taken("k", worldtest.Envelope(id, Add{Amount: 7, Note: "b"})) // other content
		b.want("k", 18, 8)

		time.Sleep(31 * 24 * time.Hour)
		late := worldtest.Envelope(id, Add{Amount: 5, Note: "a"})
		first := worldtest.Envelope(worldtest.IDAt(time.Now().Add(-31*24*time.Hour-time.Hour), 1), Add{Amount: 20, Note: "c"})
		judged := worldtest.Envelope(worldtest.IDAt(time.Now().Add(-31*24*time.Hour-time.Hour), 2), Add{Amount: 100})
		errs := b.take("k", late, first, judged)
		worldtest.WantErr(t, errs[0], nil)
		worldtest.WantErr(t, errs[1], nil)
		worldtest.WantErr(t, errs[2], values.ErrTooOld)
		b.want("k", 38, 9)
	})
}

// A message whose emissions are pending is a replay, although no record has it: its fold would not emit them again.
func TestIdempotentMessageSendsItsPending(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		id := newID()
		m := worldtest.Envelope(id, Add{Amount: 5, Note: "a"})
		event := channel.DerivedID(id, "event", "/books/k", "0")
		dying := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "send" {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		worldtest.WantErr(t, newBooks(t, dying).take("k", m)[0], storage.ErrUnavailable)
		worldtest.Want(t, "events of the dead writer", len(worldtest.Take(t, s, "totals")), 0)

		b := newBooks(t, s)
		b.taken("k", worldtest.Envelope(newID(), Add{Amount: 1})) // another write leaves it pending
		b.taken("k", m)
		worldtest.Want(t, "folds", b.folds, 1)
		worldtest.Want(t, "the event", idsOf(worldtest.Take(t, s, "totals"))[event], 1)
		b.taken("k", worldtest.Envelope(newID(), Add{Amount: 1})) // this one leaves it out
		b.taken("k", m)
		worldtest.Want(t, "folds once nothing is pending", b.folds, 3)
		worldtest.Want(t, "the event again", idsOf(worldtest.Take(t, s, "totals"))[event], 0)
		b.want("k", 7, 3)
	})
}

// A fold that changes nothing writes nothing; an absent document stays absent.
func TestErrUnchangedWritesNothing(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		b := newBooks(t, storagetest.Intercept(s, calls.Hook))
		nothing := worldtest.Envelope(newID(), Add{Amount: -1})
		b.taken("k", nothing)
		b.taken("k", nothing)
		worldtest.Want(t, "folds of a message without a record", b.folds, 2)
		if _, err := s.Blobs("books").Get(t.Context(), "k", ""); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("got error %v; want no document", err)
		}
		b.taken("k", nothing, worldtest.Envelope(newID(), Add{Amount: 3}))
		b.want("k", 3, 1)
		window, _ := b.entries("k")
		worldtest.Want(t, "entries", window, 1)
		written := calls.Count(writing(s))
		b.taken("k", nothing)
		worldtest.Want(t, "writes of a message that changes nothing", calls.Count(writing(s)), written)
		worldtest.Want(t, "events", len(idsOf(worldtest.Take(t, s, "totals"))), 1)
	})
}

// A remembered document may be outdated. So a message that changes nothing in it is judged by the one in the store.
func TestErrUnchangedIsProved(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		b, other := newBooks(t, s), newBooks(t, s)
		b.taken("k", worldtest.Envelope(newID(), Add{Amount: 5, Note: "a"}))
		err := other.all.Update(t.Context(), "k", func(v Book) (Book, bool) { return Book{Notes: map[string]int{}}, true })
		worldtest.WantErr(t, err, nil)
		b.taken("k", worldtest.Envelope(newID(), Add{Amount: 5, Note: "a"})) // in its memory the book has the note
		b.want("k", 5, 3)
	})
}

// An ended message is deleted, whether its fold changes anything or not.
func TestErrUnchangedEndsTheDelivery(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		b := newBooks(t, s)
		b.send(newID(), Add{Amount: -1})
		b.send(newID(), Add{Amount: 1})
		received := b.received(2)
		changes := b.changes(*received[0].Envelope, *received[1].Envelope)
		for i, c := range received {
			r, _ := receipts.Load(c.Envelope)
			receipts.Store(changes[i].Envelope, r)
		}
		for _, some := range [][]values.Change[Book]{changes[:1], changes[1:]} {
			got := b.all.Apply(t.Context(), "k", some, commitOf(s, some))[0]
			worldtest.Want(t, "outcome", got, values.Outcome{Ended: values.Deleted})
		}
		worldtest.Want(t, "messages left", worldtest.Queued(t, s, "accounts"), 0)
		b.want("k", 1, 1)
	})
}

// Random schedules have both kinds of messages, each with copies at any time, in processes that restart, on stores that
// fail before or after a call's effect. In the end each message counts once, and its event was sent.
func TestRandomSchedulesOfIdempotentMessages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) { bookSchedule(t, s, rand.New(rand.NewPCG(seed, 11))) })
		})
	}
}

func bookSchedule(t *testing.T, s *storage.Store, r *rand.Rand) {
	trouble := 0.2
	faulty := func() *books {
		d := &dice{seed: r.Uint64(), n: map[string]uint64{}}
		return newBooks(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			x := d.throw(op)
			if x >= trouble {
				return do()
			}
			if x < trouble/2 {
				do()
			}
			return op.Fail(storage.ErrUnavailable)
		}))
	}
	var left []channel.Envelope // copies that are still to be applied
	events, sum := map[string]bool{}, 0
	for i := range 60 {
		m, id := Add{Amount: i}, newID()
		if i%2 == 0 {
			m.Note = fmt.Sprint(i)
			id = worldtest.IDAt(time.Now().Add(-time.Duration(r.IntN(90))*24*time.Hour), i)
		}
		events[channel.DerivedID(id, "event", "/books/k", "0")], sum = true, sum+i
		for range 1 + r.IntN(3) {
			left = append(left, worldtest.Envelope(id, m))
		}
		if i%5 == 0 {
			left = append(left, worldtest.Envelope(newID(), Add{Amount: -1}))
		}
	}
	processes := []*books{faulty(), faulty(), faulty()}
	sent := map[string]int{}
	for round := 0; len(left) > 0; round++ {
		if round > 2000 {
			t.Fatal("it doesn't end")
		}
		r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		n := 1 + r.IntN(min(6, len(left)))
		at := r.IntN(len(processes))
		if r.IntN(6) == 0 {
			processes[at] = faulty()
		}
		var again []channel.Envelope
		for i, err := range processes[at].take("k", left[:n]...) {
			if err != nil {
				again = append(again, left[i])
			}
		}
		left = append(again, left[n:]...)
		for _, e := range worldtest.Take(t, s, "totals") {
			sent[e.ID]++
		}
		time.Sleep(time.Duration(r.IntN(40)) * time.Second)
	}
	trouble = 0
	for id := range events {
		if sent[id] == 0 {
			t.Errorf("event %s was never sent", id)
		}
	}
	worldtest.Want(t, "distinct events", len(sent), len(events))
	newBooks(t, s).want("k", sum, 60)
}
