package worker_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// poisonAll returns a lab whose jobs are all in the poison queue. Its store calls h from then on.
func poisonAll(t *testing.T, s *storage.Store, h storagetest.Hook, jobs ...job) *lab {
	t.Helper()
	var on atomic.Bool
	l := newLab(t, storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
		if on.Load() && h != nil {
			return h(ctx, op, do)
		}
		return do()
	}), func(context.Context, job) error { return handlers.Poison("bad", nil) })
	l.sendJobs(t, jobs...)
	stop := l.Start(worker.Config{})
	l.empty(t, time.Second)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), len(jobs))
	on.Store(true)
	return l
}

func ids(t *testing.T, seq iter.Seq2[poison.Entry, error]) map[string]int {
	t.Helper()
	got := map[string]int{}
	for m, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		if m.ETag == "" || m.Key == "" || m.Queue != "jobs" {
			t.Errorf("got %+v, want it named", m)
		}
		got[m.ID]++
	}
	return got
}

// Of more messages than are read at a time, each is listed once, and those that go meanwhile are left out. Find reads
// only those of one ID. Count reads none.
func TestListFindCount(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var jobs []job
		for i := range 70 {
			jobs = append(jobs, job{ID: fmt.Sprintf("job-%d", i)})
		}
		jobs = append(jobs, job{ID: "job-7", Name: "other content"})
		var reads atomic.Int64
		var vanishing atomic.Value
		vanishing.Store("")
		l := poisonAll(t, s, func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "get blob" {
				reads.Add(1)
				if v := vanishing.Load().(string); v != "" && strings.Contains(op.Resource, v) {
					return op.Fail(storage.ErrNotFound)
				}
			}
			return do()
		}, jobs...)
		all := ids(t, l.poison.List(t.Context()))
		worldtest.Want(t, "IDs", len(all), 70)
		worldtest.Want(t, "of one ID", all["job-7"], 2)
		reads.Store(0)
		if got := ids(t, l.poison.Find(t.Context(), "job-7")); len(got) != 1 || got["job-7"] != 2 {
			t.Errorf("found: got %v, want the two of job-7", got)
		}
		worldtest.Want(t, "found of none", len(ids(t, l.poison.Find(t.Context(), "job"))), 0)
		worldtest.Want(t, "reads to find", int(reads.Load()), 2)
		counts, err := poison.Count(t.Context(), l.Store)
		if err != nil || len(counts) != 1 || counts["jobs"] != 71 {
			t.Errorf("counts: got %v, %v", counts, err)
		}
		worldtest.Want(t, "reads to count", int(reads.Load()), 2)
		for m := range l.poison.Find(t.Context(), "job-1") {
			vanishing.Store(m.Key)
		}
		worldtest.Want(t, "listed without one that goes meanwhile", len(ids(t, l.poison.List(t.Context()))), 69)
	})
}

// A store that fails ends the list with its error, once.
func TestListFails(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := poisonAll(t, s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "get blob" {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}, job{ID: "a"}, job{ID: "b"})
		n := 0
		for m, err := range l.poison.List(t.Context()) {
			n++
			if !errors.Is(err, storage.ErrUnavailable) || m.Key != "" {
				t.Errorf("got %+v, %v", m, err)
			}
		}
		worldtest.Want(t, "yields", n, 1)
	})
}

// A retry that fails at the send, or between it and the deletion, leaves the entry. The next retry sends the message
// again, and its effect is there once.
func TestRetryEndsInTheMiddle(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var bad atomic.Bool
		var down atomic.Value // names of operations that fail
		down.Store([]string{})
		w := newWorld(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if slices.Contains(down.Load().([]string), op.Name) {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}))
		decide := w.decide
		bad.Store(true)
		w.decide = func(a Account, c Add) (Account, []channel.Message, error) {
			if bad.Load() {
				return a, nil, handlers.Poison("bad", nil)
			}
			return decide(a, c)
		}
		w.Start(worker.Config{})
		worldtest.Send(w.World, Add{Key: "once", To: "a", Amount: 5})
		w.empty(t, time.Second)
		bad.Store(false)
		poison := poison.At(w.Channels, "accounts")
		key := w.Poisoned("accounts")[0].Key
		for _, names := range [][]string{{"send", "commit"}, {"delete blob"}} {
			down.Store(names)
			err := poison.Retry(t.Context(), key)
			down.Store([]string{})
			if !errors.Is(err, storage.ErrUnavailable) {
				t.Fatalf("%s: got %v, want %v", names, err, storage.ErrUnavailable)
			}
			w.empty(t, time.Second)
			worldtest.Want(t, "left in the poison queue", len(w.Poisoned("accounts")), 1)
		}
		if err := poison.Retry(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.empty(t, time.Second)
		worldtest.Want(t, "left in the poison queue", len(w.Poisoned("accounts")), 0)
		if got, err := w.Accounts.Get(t.Context(), "a", ""); err != nil || got.Value.Balance != 5 || got.Version != 1 {
			t.Errorf("got %+v, %v; want it decided once", got, err)
		}
		worldtest.Want(t, "audits", int(w.reacted.Load()), 1)
	})
}

// A message is put again while an operator acts on its earlier entry. The new entry stays, with its body.
func TestPoisonedAgain(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		large := strings.Repeat("x", 100_000)
		var comesAgain atomic.Bool
		l := poisonAll(t, s, func(ctx context.Context, op storagetest.Op, do func() error) error {
			key, ok := strings.CutPrefix(op.Resource, "blob poison/")
			if op.Name != "delete blob" || !ok || !comesAgain.CompareAndSwap(true, false) {
				return do()
			}
			blob, err := s.Blobs("poison").Get(ctx, key, "")
			if err == nil {
				_, err = s.Blobs("poison").Put(ctx, key, blob.Body, storage.Condition{})
			}
			if err != nil {
				t.Error(err)
			}
			return do()
		}, job{ID: "a", Body: large})
		looked := l.onePoisoned(t)
		for name, act := range map[string]func() error{
			"discard":    func() error { return l.poison.Discard(t.Context(), looked.Key) },
			"discard if": func() error { return l.poison.DiscardIf(t.Context(), looked.Key, looked.ETag) },
		} {
			looked = l.onePoisoned(t)
			comesAgain.Store(true)
			if err := act(); !errors.Is(err, storage.ErrPrecondition) {
				t.Errorf("%s: got %v, want %v", name, err, storage.ErrPrecondition)
			}
			worldtest.Want(t, name+": bodies", len(worldtest.Claims(t, s)), 1)
		}
		if err := l.poison.DiscardIf(t.Context(), looked.Key, looked.ETag); !errors.Is(err, storage.ErrPrecondition) {
			t.Errorf("of what was looked at before: got %v, want %v", err, storage.ErrPrecondition)
		}
		comesAgain.Store(true)
		if err := l.poison.Retry(t.Context(), looked.Key); err != nil {
			t.Errorf("retry: got %v, want none: it is sent", err)
		}
		worldtest.Want(t, "retry: bodies, of the message and of the new entry", len(worldtest.Claims(t, s)), 2)
		l.onePoisoned(t)
		if err := l.poison.Discard(t.Context(), looked.Key); err != nil {
			t.Error(err)
		}
		worldtest.Want(t, "bodies, of the message", len(worldtest.Claims(t, s)), 1)
	})
}

// Messages that share an ID and are not the same have an entry each, even if their bodies have not been read.
func TestPoisonOfOneID(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		large := strings.Repeat("x", 60<<10)
		l := newLab(t, s, func(context.Context, job) error { return handlers.Poison("bad", nil) })
		l.sendJobs(t, job{ID: "large", Name: "one", Body: large}, job{ID: "large", Name: "two", Body: large}, job{ID: "small"})
		e := channel.Envelope{ID: "small", Source: "/test", Kind: "test.other.v1", Time: time.Now(), Data: []byte(`{"id":"small","name":""}`)}
		other, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		l.sendRaw(t, string(other))
		q := s.Queue("jobs")
		for range 20 {
			ds, err := q.Receive(t.Context(), 4, time.Minute)
			if err != nil || len(ds) != 4 {
				t.Fatalf("got %d messages, %v; want 4", len(ds), err)
			}
			for _, d := range ds {
				if _, err := q.Extend(t.Context(), d.Receipt, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		stop := l.Start(worker.Config{MaxDeliveries: 20})
		l.empty(t, time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 4)
		worldtest.Want(t, "bodies", len(worldtest.Claims(t, s)), 2)
		worldtest.Want(t, "handled", len(l.called()), 0)
	})
}

// Two operators retry the same message. The slower one finds that its body is gone, and reports an entry that is gone,
// not a lost body.
func TestRetryByTwo(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var l *lab
		var other atomic.Bool
		l = poisonAll(t, s, func(ctx context.Context, op storagetest.Op, do func() error) error {
			err := do()
			key, ok := strings.CutPrefix(op.Resource, "blob poison/jobs/")
			if op.Name == "get blob" && ok && other.CompareAndSwap(true, false) {
				if err := l.poison.Retry(ctx, key); err != nil {
					t.Errorf("the first one: got %v", err)
				}
			}
			return err
		}, job{ID: "a", Body: strings.Repeat("x", 60<<10)})
		key := l.onePoisoned(t).Key
		other.Store(true)
		if err := l.poison.Retry(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("the second one: got %v, want %v", err, storage.ErrNotFound)
		}
		worldtest.Want(t, "bodies, of the message", len(worldtest.Claims(t, s)), 1)
	})
}

// A discard whose entry is gone and whose body can't be deleted says so, and doesn't say that the entry is still there.
func TestDiscardLeavesTheBody(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := poisonAll(t, s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "delete blob" && strings.Contains(op.Resource, "claims/") {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}, job{ID: "a", Body: strings.Repeat("x", 60<<10)})
		err := l.poison.Discard(t.Context(), l.onePoisoned(t).Key)
		if !errors.Is(err, poison.ErrBodyLeft) || !strings.Contains(err.Error(), "claims/jobs/") {
			t.Errorf("got %v, want %v and its name", err, poison.ErrBodyLeft)
		}
		worldtest.Want(t, "entries", len(l.Poisoned("jobs")), 0)
	})
}
