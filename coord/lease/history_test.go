package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A step is a call on a lease and the document that its holders write, or the end of a lease's context.
type step struct {
	op    string // "acquire", "end", "write" or "read"
	fence int64  // of the caller; of an acquisition and a read it is the answer
	value string // of a write, and of the answer to a read
	kind  string // of a write's answer: "ok" or "fenced"
	doubt bool   // before this acquisition another may have been done without an answer
}

// situation is a lease and the document.
type situation struct {
	fence int64 // of the last holder
	held  bool
	doc   int64  // fence of the document
	value string // of the document
}

// next is the model. The fence grows by 1 with each holder (see fenceLaw for holders without an answer), there is one
// holder at a time, and a document takes no smaller fence than its own.
func (s situation) next(a storagetest.Answer[step, step]) []situation {
	in, out := a.In, a.Out
	switch after := s; in.op {
	case "acquire":
		if !s.held && (out.fence == s.fence+1 || in.doubt && out.fence > s.fence) {
			after.fence, after.held = out.fence, true
			return []situation{after}
		}
	case "end":
		if s.held && in.fence == s.fence {
			after.held = false
			return []situation{after}
		}
	case "read":
		if out.fence == s.doc && out.value == s.value {
			return []situation{s}
		}
	case "write":
		after.doc, after.value = in.fence, in.value
		may := in.fence >= s.doc
		switch {
		case a.Unknown && may:
			return []situation{s, after}
		case a.Unknown, out.kind == "fenced" && !may:
			return []situation{s}
		case out.kind == "ok" && may:
			return []situation{after}
		}
	}
	return nil
}

// A history records the calls of players.
type history struct {
	storagetest.History[step, step]
	t     *testing.T
	ttl   time.Duration
	doubt bool // acquisitions may be done without an answer
}

func (h *history) record(client int, in step, do func() (out step, unknown bool)) {
	h.Record(client, func() []storagetest.Answer[step, step] {
		out, unknown := do()
		return []storagetest.Answer[step, step]{{Key: name, In: in, Out: out, Unknown: unknown}}
	})
}

// play lets a process hold the lease some times. Sometimes it loses its store while it holds the lease, and writes
// when that is back.
func (h *history) play(client int, s *storage.Store, r *rand.Rand, times int) {
	for n := range times {
		link := storagetest.NewLink(s)
		var l *lease.Lease
		h.record(client, step{op: "acquire", doubt: h.doubt}, func() (step, bool) {
			var err error
			if l, err = lease.Acquire(h.t.Context(), link.Store, name, lease.Config{TTL: h.ttl}); err != nil {
				h.t.Fatal(err)
			}
			return step{fence: l.Fence()}, false
		})
		end := step{op: "end", fence: l.Fence()}
		// A lease may end at any moment, because its renewals fail. So the end is recorded when it comes, and not when
		// the player gets to look: another may hold the lease by then.
		lost := make(chan struct{})
		stop := context.AfterFunc(l.Context(), func() {
			defer close(lost)
			h.record(client, end, func() (step, bool) { return step{}, false })
		})
		docs := l.Blobs(s.Blobs("docs"))
		h.write(client, docs, l, fmt.Sprintf("%d-%d", client, n))
		h.read(client, s)
		if r.IntN(3) == 0 {
			link.Cut()
			<-lost
			link.Restore()
			h.write(client, docs, l, fmt.Sprintf("%d-%d late", client, n))
		} else if stop() {
			h.record(client, end, func() (step, bool) {
				_ = l.Release(h.t.Context())
				return step{}, false
			})
		} else {
			<-lost
			_ = l.Release(h.t.Context())
		}
		h.write(client, docs, l, fmt.Sprintf("%d-%d over", client, n))
	}
}

func (h *history) write(client int, docs *lease.Documents, l *lease.Lease, value string) {
	h.record(client, step{op: "write", fence: l.Fence(), value: value}, func() (step, bool) {
		ctx, cancel := context.WithTimeout(h.t.Context(), h.ttl)
		defer cancel()
		_, err := docs.Put(ctx, key, []byte(value), storage.Condition{})
		switch {
		case err == nil:
			return step{kind: "ok"}, false
		case errors.Is(err, lease.ErrFenced) && !errors.Is(err, storage.ErrUnavailable):
			return step{kind: "fenced"}, false
		}
		return step{}, true
	})
}

func (h *history) read(client int, s *storage.Store) {
	h.Record(client, func() []storagetest.Answer[step, step] {
		ctx, cancel := context.WithTimeout(h.t.Context(), h.ttl)
		defer cancel()
		d, err := lease.Read(ctx, s.Blobs("docs"), key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return []storagetest.Answer[step, step]{{Key: name, In: step{op: "read"}, Out: step{fence: d.Fence, value: string(d.Content)}}}
	})
}

func (h *history) check() {
	h.t.Helper()
	if err := storagetest.CheckHistory(&h.History, situation.next, h.t.ArtifactDir()); err != nil {
		h.t.Error(err)
	}
}

func TestTheHistoryOfALeaseAndItsDocument(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				h := &history{t: t, ttl: ttl, doubt: seed > 0}
				var players, late sync.WaitGroup
				for i := range 4 {
					players.Go(func() {
						mine := s
						if seed > 0 {
							mine = weather(s, rand.New(rand.NewPCG(seed, uint64(i))), &late)
						}
						h.play(i, mine, rand.New(rand.NewPCG(uint64(i), seed)), 3)
					})
				}
				players.Wait()
				h.check()
				late.Wait()
			})
		})
	}
}

func TestTheHistoryOnAzure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for TTLs to pass")
	}
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azurite, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	h := &history{t: t, ttl: 3 * time.Second}
	var players sync.WaitGroup
	for i := range 2 {
		players.Go(func() { h.play(i, s, rand.New(rand.NewPCG(uint64(i), 4)), 2) })
	}
	players.Wait()
	h.check()
}

// The model refuses what must not be.
func TestTheModelOfALease(t *testing.T) {
	t.Parallel()
	for what, a := range map[string]struct {
		before situation
		call   storagetest.Answer[step, step]
	}{
		"a fence that grows by 2":    {situation{fence: 1}, storagetest.Answer[step, step]{In: step{op: "acquire"}, Out: step{fence: 3}}},
		"two holders":                {situation{fence: 1, held: true}, storagetest.Answer[step, step]{In: step{op: "acquire"}, Out: step{fence: 2}}},
		"the end of another":         {situation{fence: 2, held: true}, storagetest.Answer[step, step]{In: step{op: "end", fence: 1}}},
		"a smaller fence is written": {situation{fence: 2, doc: 2}, storagetest.Answer[step, step]{In: step{op: "write", fence: 1}, Out: step{kind: "ok"}}},
		"a write is lost":            {situation{fence: 2, doc: 2, value: "a"}, storagetest.Answer[step, step]{In: step{op: "read"}, Out: step{fence: 1}}},
		"fenced off by nobody":       {situation{fence: 2, doc: 2}, storagetest.Answer[step, step]{In: step{op: "write", fence: 2}, Out: step{kind: "fenced"}}},
	} {
		if after := a.before.next(a.call); after != nil {
			t.Errorf("%s: %+v", what, after)
		}
	}
}
