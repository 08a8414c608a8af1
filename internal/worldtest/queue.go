package worldtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

const (
	visibility = time.Minute
	most       = 32 // the most that every store returns at once
)

// Envelope makes an envelope that a worker could receive.
func Envelope(id string, m channel.Message) channel.Envelope {
	body, err := wire.EncodeBody(m)
	if err != nil {
		panic(err)
	}
	return channel.Envelope{ID: id, Source: "/test", Kind: m.Kind(), Time: time.Now(), Data: body}
}

// Take receives and deletes all ready messages of a queue.
func Take(t testing.TB, s *storage.Store, queue string) []channel.Envelope {
	t.Helper()
	var all []channel.Envelope
	for {
		ds, err := s.Queue(queue).Receive(t.Context(), most, visibility)
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 {
			return all
		}
		var done []storage.Receipt
		for _, d := range ds {
			e, err := wire.Decode(d.Body)
			if err != nil {
				t.Fatal(err)
			}
			all, done = append(all, e), append(done, d.Receipt)
		}
		if err := s.Queue(queue).Delete(t.Context(), done); err != nil {
			t.Fatal(err)
		}
	}
}

// Commit returns a [values.Commit] like a worker's: it deletes the messages of these claims, one for each delivery or
// change, in the unit of work.
func Commit(s *storage.Store, claims []storage.Claim) values.Commit {
	return func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []values.Ended, error) {
		for _, i := range ends {
			work.Delete = append(work.Delete, claims[i])
		}
		done, err := s.Commit(ctx, work)
		ended := make([]values.Ended, len(ends))
		for i, claim := range work.Delete {
			ended[i] = values.Deleted
			if slices.Contains(done.Stale, claim) {
				ended[i] = values.Stale
			}
		}
		return done.ETag, ended, err
	}
}

// Bodies returns the bodies of envelopes, sorted.
func Bodies(es []channel.Envelope) []string {
	var bodies []string
	for _, e := range es {
		bodies = append(bodies, string(e.Data))
	}
	slices.Sort(bodies)
	return bodies
}

// Queued counts a queue's messages, visible or not.
func Queued(t testing.TB, s *storage.Store, queue string) int {
	t.Helper()
	st, err := s.Queue(queue).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(st.Ready + st.InFlight + st.Delayed)
}

// Claims lists the keys of the claim-checked bodies.
func Claims(t testing.TB, s *storage.Store) []string {
	t.Helper()
	var keys []string
	for info, err := range s.Blobs("claims").List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}
