package worker_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// fetched counts the claim-checked bodies that were fetched through a store, and those that are being fetched.
func fetched(s *storage.Store) (_ *storage.Store, all, atOnce *atomic.Int64) {
	all, atOnce = new(atomic.Int64), new(atomic.Int64)
	var now atomic.Int64
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name != "get blob" || !strings.HasPrefix(op.Resource, "blob claims/") {
			return do()
		}
		all.Add(1)
		if n := now.Add(1); n > atOnce.Load() {
			atOnce.Store(n)
		}
		time.Sleep(10 * time.Millisecond)
		defer now.Add(-1)
		return do()
	}), all, atOnce
}

// A worker holds no more claim-checked bodies than it has room for. A body goes when its message ends, however that
// ends, and makes room for others.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const (
			n    = 60
			size = 100_000
			room = channel.MaxData + 10*size + size/2 // for ten fetched bodies, and one of unknown size
		)
		hooked, all, atOnce := fetched(s)
		release := make(chan struct{})
		l := newLab(t, hooked, func(_ context.Context, j job) error {
			<-release
			if j.Name == "bad" {
				return errors.New("no")
			}
			return nil
		})
		jobs := make([]job, n)
		for i := range jobs {
			jobs[i].Body = strings.Repeat("x", size)
			if i%3 == 0 {
				jobs[i].Name = "bad"
			}
		}
		l.sendJobs(t, jobs...)
		l.Start(worker.Config{Concurrency: 50, MaxBodies: room, MaxAttempts: 2})
		time.Sleep(10 * time.Second)
		worldtest.Want(t, "bodies in hand", int(all.Load()), 11)
		worldtest.Want(t, "fetched at once", int(atOnce.Load()), 1)
		close(release)
		l.empty(t, time.Second)
		worldtest.Want(t, "handled", len(l.called()), n+n/3)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), n/3)
	})
}

// Bodies that are folded count likewise. One message always goes on, however little room there is.
func TestBodiesOfAFold(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		hooked, _, atOnce := fetched(s)
		w := newWorld(t, hooked, "totals")
		const n = 30
		for range n {
			worldtest.Send(w.World, Add{To: "a", Amount: 1, Note: strings.Repeat("x", 60_000)})
		}
		w.Start(worker.Config{MaxBodies: 1, Consume: []string{"accounts"}})
		for stats(t, s, "accounts").Ready+stats(t, s, "accounts").InFlight > 0 {
			time.Sleep(time.Second)
		}
		if d, err := w.Accounts.Get(t.Context(), "a", ""); err != nil || d.Value.Count != n {
			t.Errorf("got %+v, %v; want %d", d.Value, err, n)
		}
		worldtest.Want(t, "fetched at once", int(atOnce.Load()), 1)
	})
}

// Messages that wait for room are handed back when the worker stops.
func TestStopBesideFullRoom(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(context.Context, job) error { time.Sleep(20 * time.Second); return nil })
		body := strings.Repeat("x", 60_000)
		l.sendJobs(t, job{Body: body}, job{Body: body}, job{Body: body})
		stop := l.Start(worker.Config{MaxBodies: 1, DrainTimeout: time.Minute})
		time.Sleep(5 * time.Second)
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		time.Sleep(3 * time.Second)
		worldtest.Want(t, "handed back at once", int(stats(t, s, "jobs").Ready), 2)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "handled", len(l.called()), 1)
	})
}

// A message whose claim-checked body doesn't fit its kind, or whose kind is unknown, ends as one that has its body
// inside.
func TestBadFetchedBody(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(context.Context, job) error { return nil })
		large := strings.Repeat("x", 60_000)
		for _, e := range []channel.Envelope{
			{ID: "unfit", Kind: job{}.Kind(), Data: []byte(`["` + large + `"]`)},
			{ID: "unknown", Kind: "test.unknown.v1", Data: []byte(`{"body":"` + large + `"}`)},
		} {
			e.Source = "/test"
			p, err := l.Channels.Outbox().PackFor(t.Context(), "jobs", e)
			if err == nil {
				err = l.Channels.Outbox().SendPacked(t.Context(), p)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		l.Start(worker.Config{UnknownFor: time.Minute})
		l.empty(t, time.Minute)
		reasons := map[string]string{}
		for _, p := range l.Poisoned("jobs") {
			reasons[p.ID] = p.Reason
		}
		want := map[string]string{"unfit": handlers.ReasonUndecodable, "unknown": handlers.ReasonUnknownKind}
		if !maps.Equal(reasons, want) || len(l.called()) > 0 {
			t.Errorf("poisoned %v, %d handled; want %v and none", reasons, len(l.called()), want)
		}
	})
}
