package poison_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/post"
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
	e, err := post.Decode(ds[0].Body)
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
	err := poison.Put(t.Context(), w.Store, &e, poison.Entry{Queue: worldtest.Accounts, Reason: "bad", Error: "no", ID: e.ID, Kind: e.Kind, Body: d.Body}, nil,
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

// A message that the caller can't prove to be its own is not put.
func TestPutOfALostMessage(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{})
		e := channel.Envelope{ID: "a", Source: "/test", Kind: worldtest.AddKind}
		err := poison.Put(t.Context(), w.Store, &e, poison.Entry{Queue: worldtest.Accounts, ID: "a"}, nil, func(context.Context) (storage.Claim, error) {
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
