package poison_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// receive takes one message off the queue.
func receive(t *testing.T, w *worldtest.World) (storage.Delivery, channel.Envelope) {
	t.Helper()
	ds, err := w.Store.Queue(worldtest.Accounts).Receive(t.Context(), 1, time.Minute)
	if err != nil || len(ds) != 1 {
		t.Fatalf("received %d messages, %v; want one", len(ds), err)
	}
	e, err := wire.Decode(ds[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	return ds[0], e
}

// put sends a message, receives it, and puts it into the poison queue.
func put(t *testing.T, w *worldtest.World, m worldtest.Add) {
	t.Helper()
	worldtest.Send(w, m)
	d, e := receive(t, w)
	err := poison.Put(t.Context(), w.Store, &e, poison.Entry{Queue: worldtest.Accounts, Reason: "bad", Error: "no", ID: e.ID, Kind: e.Kind, Body: d.Body},
		func(context.Context) (storage.Claim, error) {
			return storage.Claim{Queue: worldtest.Accounts, Receipt: d.Receipt}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// A message that is put is gone from its queue. It is listed, found and counted, with its reason. A retry sends it back
// unchanged.
func TestPutListRetry(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{})
		large := strings.Repeat("x", 100_000) // its body lies beside the message
		put(t, w, worldtest.Add{Key: "a", Note: "short"})
		put(t, w, worldtest.Add{Key: "b", Note: large})
		var ids []string
		for _, e := range w.Poisoned(worldtest.Accounts) {
			ids = append(ids, e.ID)
			if e.Reason != "bad" || e.Error != "no" || e.Kind != worldtest.AddKind || e.ETag == "" {
				t.Errorf("got %+v; want it whole", e)
			}
		}
		if slices.Sort(ids); !slices.Equal(ids, []string{"a", "b"}) {
			t.Fatalf("listed %q; want a and b", ids)
		}
		if n, err := poison.Count(t.Context(), w.Store); err != nil || n[worldtest.Accounts] != 2 || len(n) != 1 {
			t.Errorf("counted %v, %v; want two of that queue", n, err)
		}
		if ds, err := w.Store.Queue(worldtest.Accounts).Receive(t.Context(), 1, time.Minute); err != nil || len(ds) != 0 {
			t.Errorf("%d messages left in their queue, %v; want none", len(ds), err)
		}
		q := poison.At(w.Channels, worldtest.Accounts)
		for e, err := range q.Find(t.Context(), "b") {
			if err == nil {
				err = q.Retry(t.Context(), e.Key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_, e := receive(t, w)
		if err := w.Channels.Outbox().FetchBody(t.Context(), &e); err != nil || e.ID != "b" || !strings.Contains(string(e.Data), large) {
			t.Errorf("got back %q, %v, with %d bytes; want b as it was", e.ID, err, len(e.Data))
		}
		if left := w.Poisoned(worldtest.Accounts); len(left) != 1 || left[0].ID != "a" {
			t.Errorf("left: %+v; want a", left)
		}
	})
}

// A message from elsewhere without any time counts from its first failure when it is sent back. Any other keeps its
// time.
func TestRetryGivesAMessageAnAge(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{})
		failed, sent := time.Now().Add(-time.Hour).UTC(), time.Now().Add(-2*time.Hour).UTC()
		for _, test := range []struct {
			e    channel.Envelope
			born time.Time
		}{{channel.Envelope{ID: "a"}, failed}, {channel.Envelope{ID: "b", Time: sent}, sent}, {channel.Envelope{ID: "c", Since: sent}, sent}} {
			e := test.e
			e.Source, e.Kind, e.Data = "/elsewhere", worldtest.AddKind, []byte(`{}`)
			body, err := e.Encode()
			if err == nil {
				err = s.Queue(worldtest.Accounts).Send(t.Context(), []storage.Message{{Body: body}})
			}
			if err != nil {
				t.Fatal(err)
			}
			d, _ := receive(t, w)
			err = poison.Put(t.Context(), s, &e, poison.Entry{Queue: worldtest.Accounts, ID: e.ID, Kind: e.Kind, First: failed, Body: d.Body},
				func(context.Context) (storage.Claim, error) {
					return storage.Claim{Queue: worldtest.Accounts, Receipt: d.Receipt}, nil
				})
			if err == nil {
				err = poison.At(w.Channels, worldtest.Accounts).Retry(t.Context(), w.Poisoned(worldtest.Accounts)[0].Key)
			}
			if err != nil {
				t.Fatal(err)
			}
			d, got := receive(t, w)
			if !got.Born().Equal(test.born) {
				t.Errorf("%s counts from %v, want %v", e.ID, got.Born(), test.born)
			}
			if err := s.Queue(worldtest.Accounts).Delete(t.Context(), []storage.Receipt{d.Receipt}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A message that the caller can't prove to be its own is not put.
func TestPutOfALostMessage(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{})
		e := channel.Envelope{ID: "a", Source: "/test", Kind: worldtest.AddKind}
		err := poison.Put(t.Context(), w.Store, &e, poison.Entry{Queue: worldtest.Accounts, ID: "a"}, func(context.Context) (storage.Claim, error) {
			return storage.Claim{}, storage.ErrReceiptStale
		})
		if !errors.Is(err, storage.ErrReceiptStale) {
			t.Errorf("got %v, want %v", err, storage.ErrReceiptStale)
		}
		if all := w.Poisoned(worldtest.Accounts); len(all) != 0 {
			t.Errorf("in the poison queue: %+v; want nothing", all)
		}
	})
}

// A message that is put twice is there once. An entry that was looked at before the second put can't be discarded by
// its ETag.
func TestPutTwice(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{})
		put(t, w, worldtest.Add{Key: "a", Note: "text"})
		before := w.Poisoned(worldtest.Accounts)
		put(t, w, worldtest.Add{Key: "a", Note: "text"})
		after := w.Poisoned(worldtest.Accounts)
		if len(before) != 1 || len(after) != 1 || before[0].Key != after[0].Key {
			t.Fatalf("got %+v, then %+v; want one entry", before, after)
		}
		q := poison.At(w.Channels, worldtest.Accounts)
		if err := q.DiscardIf(t.Context(), before[0].Key, before[0].ETag); !errors.Is(err, storage.ErrPrecondition) {
			t.Errorf("discard of what was looked at before: got %v, want %v", err, storage.ErrPrecondition)
		}
		if err := q.DiscardIf(t.Context(), after[0].Key, after[0].ETag); err != nil {
			t.Error(err)
		}
		if err := q.Discard(t.Context(), after[0].Key); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("discard again: got %v, want %v", err, storage.ErrNotFound)
		}
	})
}

// The name of no queue is an error that says the rule, not an empty poison queue.
func TestAtAnImpossibleName(t *testing.T) {
	t.Parallel()
	w := worldtest.New(t, worldtest.OpenStore(t, worldtest.Virtual), worldtest.Config{})
	for _, name := range []string{"", "Accounts", "a", "accounts/", "accounts_old"} {
		q := poison.At(w.Channels, name)
		var errs []error
		for _, err := range q.List(t.Context()) {
			errs = append(errs, err)
		}
		if len(errs) != 1 {
			t.Errorf("%q: got %d errors, want one", name, len(errs))
		}
		for _, err := range errs {
			if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "want 3 to 50 lower-case letters") {
				t.Errorf("%q: got error %v, want the rule", name, err)
			}
		}
	}
	for _, err := range poison.At(w.Channels, "nobody").List(t.Context()) {
		t.Errorf("a queue without poison: got %v", err)
	}
	if _, err := w.Store.Blobs("poison").Put(t.Context(), "Foreign/x", []byte("{}"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	for e, err := range poison.At(w.Channels, "Foreign").List(t.Context()) {
		if err != nil || e.Reason != poison.ReasonUnreadable {
			t.Errorf("of another program: got %+v, %v; want it listed, so that it can be discarded", e, err)
		}
	}
	if _, err := w.Store.Blobs("poison").Put(t.Context(), "Foreign", []byte("{}"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	if n, err := poison.Count(t.Context(), w.Store); err != nil || n["Foreign"] != 1 || len(n) != 1 {
		t.Errorf("got %v, %v; want a blob that is in no queue left out", n, err)
	}
}

// The entry of a message that a worker has begun to move is found by the message, and only by that one.
func TestBegun(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{})
		worldtest.Send(w, worldtest.Add{Key: "a"})
		d, e := receive(t, w)
		begun := func(e channel.Envelope) error {
			_, err := poison.Begun(t.Context(), s, worldtest.Accounts, &e, d.Body)
			return err
		}
		worldtest.WantErr(t, begun(e), storage.ErrNotFound)
		entry := poison.Entry{
			Queue: worldtest.Accounts, Reason: "bad", Error: strings.Repeat("\xff", 100_000), ID: e.ID, Kind: e.Kind, Body: d.Body, Last: time.Now().UTC(), Emitted: []string{"b"},
		}
		prove := func(context.Context) (storage.Claim, error) {
			return storage.Claim{Queue: worldtest.Accounts, Receipt: d.Receipt}, nil
		}
		if err := poison.Put(t.Context(), s, &e, entry, prove); err != nil {
			t.Fatal(err)
		}
		got, err := poison.Begun(t.Context(), s, worldtest.Accounts, &e, d.Body)
		if err != nil || got.Reason != "bad" || !got.Last.Equal(entry.Last) || !slices.Equal(got.Emitted, entry.Emitted) || got.Error != poison.ErrorText(entry.Error) {
			t.Errorf("got %+v, %v; want the entry", got, err)
		}
		if again := poison.ErrorText(got.Error); again != got.Error || len(got.Error) > 65<<10 {
			t.Errorf("got an error of %d bytes, and of %d when it is shortened again", len(got.Error), len(again))
		}
		data := e.Data
		e.Attempts = 3
		worldtest.WantErr(t, begun(e), nil) // history doesn't make it another message
		e.Data = []byte(`{"to":"other"}`)
		worldtest.WantErr(t, begun(e), storage.ErrNotFound)
		blobs := s.Blobs("poison")
		if _, err := blobs.Put(t.Context(), worldtest.Accounts+"/"+got.Key, []byte("{"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		e.Data = data
		worldtest.WantErr(t, begun(e), storage.ErrNotFound) // it is damaged, and is put again
	})
}
