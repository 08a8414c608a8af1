package poison_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/post"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

type letter struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func (letter) Kind() channel.Kind  { return "test.letter.v1" }
func (l letter) MessageID() string { return l.ID }

func newChannels(t *testing.T, wrap func(*storage.Store) *storage.Store) *channel.Channels {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	routes, err := channel.NewRoutes(channel.Command[letter]("letters"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(wrap(s), routes, "/test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// onEachStore runs a test on a store whose Commit is atomic, and on one whose Commit isn't.
func onEachStore(t *testing.T, test func(t *testing.T, c *channel.Channels)) {
	t.Parallel()
	for name, wrap := range map[string]func(*storage.Store) *storage.Store{
		"atomic": func(s *storage.Store) *storage.Store { return s },
		"plain":  storagetest.Plain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newChannels(t, wrap))
		})
	}
}

// receive takes one message off the queue.
func receive(t *testing.T, c *channel.Channels) (storage.Delivery, channel.Envelope) {
	t.Helper()
	ds, err := c.Store().Queue("letters").Receive(t.Context(), 1, time.Minute)
	if err != nil || len(ds) != 1 {
		t.Fatalf("received %d messages, %v; want one", len(ds), err)
	}
	e, err := post.Decode(ds[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	return ds[0], e
}

// put sends a letter, receives it, and puts it into the poison queue.
func put(t *testing.T, c *channel.Channels, l letter) {
	t.Helper()
	send, err := channel.NewSender[letter](c)
	if err != nil {
		t.Fatal(err)
	}
	if err := send.Send(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	d, e := receive(t, c)
	err = poison.Put(t.Context(), c.Store(), &e, poison.Entry{Queue: "letters", Reason: "bad", Error: "no", ID: e.ID, Kind: e.Kind, Body: d.Body},
		func(context.Context) (storage.Claim, error) {
			return storage.Claim{Queue: "letters", Receipt: d.Receipt}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, c *channel.Channels) []poison.Entry {
	t.Helper()
	var all []poison.Entry
	for e, err := range poison.At(c, "letters").List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// A message that is put is gone from its queue. It is listed, found and counted, with its reason. A retry sends it back
// unchanged.
func TestPutListRetry(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *channel.Channels) {
		large := strings.Repeat("x", 100_000) // its body lies beside the message
		put(t, c, letter{"a", "short"})
		put(t, c, letter{"b", large})
		var ids []string
		for _, e := range list(t, c) {
			ids = append(ids, e.ID)
			if e.Reason != "bad" || e.Error != "no" || e.Kind != "test.letter.v1" || e.ETag == "" {
				t.Errorf("got %+v; want it whole", e)
			}
		}
		if slices.Sort(ids); !slices.Equal(ids, []string{"a", "b"}) {
			t.Fatalf("listed %q; want a and b", ids)
		}
		if n, err := poison.Count(t.Context(), c.Store()); err != nil || n["letters"] != 2 || len(n) != 1 {
			t.Errorf("counted %v, %v; want two letters", n, err)
		}
		if ds, err := c.Store().Queue("letters").Receive(t.Context(), 1, time.Minute); err != nil || len(ds) != 0 {
			t.Errorf("%d messages left in their queue, %v; want none", len(ds), err)
		}
		q := poison.At(c, "letters")
		for e, err := range q.Find(t.Context(), "b") {
			if err == nil {
				err = q.Retry(t.Context(), e.Key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_, e := receive(t, c)
		if err := c.Outbox().FetchBody(t.Context(), &e); err != nil || e.ID != "b" || !strings.Contains(string(e.Data), large) {
			t.Errorf("got back %q, %v, with %d bytes; want b as it was", e.ID, err, len(e.Data))
		}
		if left := list(t, c); len(left) != 1 || left[0].ID != "a" {
			t.Errorf("left: %+v; want a", left)
		}
	})
}

// A message that the caller can't prove to be its own is not put.
func TestPutOfALostMessage(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *channel.Channels) {
		e := channel.Envelope{ID: "a", Source: "/test", Kind: "test.letter.v1"}
		err := poison.Put(t.Context(), c.Store(), &e, poison.Entry{Queue: "letters", ID: "a"}, func(context.Context) (storage.Claim, error) {
			return storage.Claim{}, storage.ErrReceiptStale
		})
		if !errors.Is(err, storage.ErrReceiptStale) {
			t.Errorf("got %v, want %v", err, storage.ErrReceiptStale)
		}
		if all := list(t, c); len(all) != 0 {
			t.Errorf("in the poison queue: %+v; want nothing", all)
		}
	})
}

// A message that is put twice is there once. An entry that was looked at before the second put can't be discarded by
// its ETag.
func TestPutTwice(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *channel.Channels) {
		put(t, c, letter{"a", "text"})
		before := list(t, c)
		put(t, c, letter{"a", "text"})
		after := list(t, c)
		if len(before) != 1 || len(after) != 1 || before[0].Key != after[0].Key {
			t.Fatalf("got %+v, then %+v; want one entry", before, after)
		}
		q := poison.At(c, "letters")
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
