package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// Messages for one document that are received together are one read and one write.
func TestOneWriteForAFold(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		w := newWorld(t, s)
		for range 30 {
			worldtest.Send(w.World, Add{To: "a", Amount: 1}, Add{To: "b", Amount: 1})
		}
		w2 := newWorld(t, storagetest.Intercept(s, calls.Hook))
		w2.Start(worker.Config{Concurrency: 60, Consume: []string{"accounts"}})
		for stats(t, s, "accounts").Ready+stats(t, s, "accounts").InFlight > 0 {
			time.Sleep(time.Second)
		}
		writes, reads := 0, 0
		for _, op := range calls.Ops() {
			if strings.HasPrefix(op.Resource, "blob accounts/") {
				if op.Name == "get blob" {
					reads++
				} else {
					writes++
				}
			}
		}
		worldtest.Want(t, "writes of 60 messages for 2 documents", writes, 2)
		worldtest.Want(t, "reads", reads, 2)
		worldtest.Want(t, "events", int(stats(t, s, "totals").Ready), 60)
	})
}

// One worker has one fold of a document at a time, so it never races with itself.
func TestOneFoldAtATime(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var races atomic.Int64
		w := newWorld(t, storagetest.Intercept(s, func(_ context.Context, _ storagetest.Op, do func() error) error {
			err := do()
			if storage.LostRace(err) {
				races.Add(1)
			}
			return err
		}))
		var mu sync.Mutex
		running := map[string]int{}
		decide := w.decide
		w.decide = func(a Account, c Add) (Account, []channel.Message, error) {
			mu.Lock()
			if running[c.To]++; running[c.To] > 1 {
				t.Error("two folds of one document at a time")
			}
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			running[c.To]--
			mu.Unlock()
			return decide(a, c)
		}
		w.Start(worker.Config{})
		for i := range 300 {
			worldtest.Send(w.World, Add{To: fmt.Sprint("a-", i%3), Amount: 1})
		}
		w.empty(t, 100*time.Millisecond)
		worldtest.Want(t, "lost races", int(races.Load()), 0)
		for i := range 3 {
			if d, err := w.Accounts.Get(t.Context(), fmt.Sprint("a-", i), ""); err != nil || d.Value.Balance != 100 {
				t.Errorf("got %+v, %v; want 100", d.Value, err)
			}
		}
	})
}

// With slow handlers the worker holds little more than it runs. With fast ones it fetches large batches, even after
// slow ones.
func TestRoomFollowsTheHandlers(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		slow := true
		var hiccups atomic.Int64
		l := newLab(t, storagetest.Intercept(s, calls.Hook), func(context.Context, job) error {
			if slow {
				time.Sleep(time.Second)
			} else if hiccups.Add(-1) >= 0 {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		})
		stop := l.Start(worker.Config{Concurrency: 4})
		l.sendJobs(t, make([]job, 100)...)
		most := int64(0)
		for range 20 {
			time.Sleep(time.Second)
			most = max(most, stats(t, s, "jobs").InFlight)
		}
		if most > 8 {
			t.Errorf("slow: %d in hand with 4 running", most)
		}
		l.empty(t, time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		slow = false
		hiccups.Store(12)
		l.sendJobs(t, make([]job, 3000)...)
		before := calls.Count("receive")
		l.Start(worker.Config{Concurrency: 4})
		l.empty(t, 50*time.Millisecond)
		if n := calls.Count("receive") - before; n > 150 {
			t.Errorf("fast: %d calls to receive 3000 messages; want large batches", n)
		}
		worldtest.Want(t, "handled", len(l.called()), 3100)
	})
}

// Several workers share a queue: every message is handled, none twice, and each worker gets some.
func TestWorkersShareAQueue(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const n = 300
		var mu sync.Mutex
		handled := map[string]int{}
		var share [3]atomic.Int64
		var labs [3]*lab
		for i := range labs {
			labs[i] = newLab(t, s, func(_ context.Context, j job) error {
				mu.Lock()
				handled[j.Name]++
				mu.Unlock()
				share[i].Add(1)
				time.Sleep(50 * time.Millisecond)
				return nil
			})
			labs[i].Start(worker.Config{Concurrency: 4})
		}
		jobs := make([]job, n)
		for i := range jobs {
			jobs[i].Name = fmt.Sprint("job-", i)
		}
		labs[0].sendJobs(t, jobs...)
		labs[0].empty(t, 50*time.Millisecond)
		worldtest.Want(t, "handled", len(handled), n)
		for name, times := range handled {
			if times != 1 {
				t.Errorf("%s was handled %d times", name, times)
			}
		}
		for i := range share {
			if got := share[i].Load(); got < n/10 {
				t.Errorf("worker %d handled %d of %d", i, got, n)
			}
		}
	})
}

// Large messages reach reactions, decisions and projections whole, through retries too. None of their bodies stays
// behind.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		note := strings.Repeat("large ", 20_000)
		w := newWorld(t, s)
		var mu sync.Mutex
		tries := map[string]int{}
		again := func(who, got string) error {
			mu.Lock()
			defer mu.Unlock()
			if got != note {
				t.Errorf("%s: got a body of %d bytes, want %d", who, len(got), len(note))
			}
			if tries[who]++; tries[who] == 1 {
				return errors.New("once more")
			}
			return nil
		}
		decide := w.decide
		w.decide = func(a Account, c Add) (Account, []channel.Message, error) {
			if err := again("decision", c.Note); err != nil {
				return a, nil, err
			}
			return decide(a, c)
		}
		w.react = func(_ context.Context, e Added) error { return again("reaction", e.Note) }
		w.Start(worker.Config{})
		worldtest.Send(w.World, Add{To: "a", Amount: 1, Note: note})
		if len(worldtest.Claims(t, s)) == 0 {
			t.Fatal("the message was not claim-checked")
		}
		w.empty(t, time.Second)
		worldtest.Want(t, "runs of the decision", tries["decision"], 2)
		worldtest.Want(t, "runs of the reaction", tries["reaction"], 2)
		mu.Lock()
		note = ""
		mu.Unlock()
		worldtest.Send(w.World, Add{To: "a", Amount: 1}) // the write that leaves the events out
		w.empty(t, time.Second)
		worldtest.Want(t, "claim-checked bodies left", len(worldtest.Claims(t, s)), 0)
		if v, _, err := w.Totals.GetFresh(t.Context(), "a"); err != nil || v.Count != 2 {
			t.Errorf("view: got %+v, %v", v, err)
		}
	})
}

// A message whose claim-checked body is gone goes to the poison queue, with that reason.
func TestLostBody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(context.Context, job) error { return nil })
		l.sendJobs(t, job{Body: strings.Repeat("x", 100_000)})
		for info, err := range l.Store.Blobs("claims").List(t.Context(), "") {
			if err == nil {
				err = l.Store.Blobs("claims").Delete(t.Context(), info.Key, storage.Condition{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		l.Start(worker.Config{})
		l.empty(t, time.Second)
		if p := l.onePoisoned(t); p.Reason != handlers.ReasonDataLost || p.Attempts != 0 {
			t.Errorf("poisoned: got %+v", p)
		}
	})
}

// The operator's view of the poison queue: list, get, send back, discard.
func TestPoisonQueue(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var fixed atomic.Bool
		l := newLab(t, s, func(context.Context, job) error {
			if fixed.Load() {
				return nil
			}
			return errors.New("no")
		})
		l.Start(worker.Config{MaxAttempts: 2})
		large := strings.Repeat("x", 100_000)
		l.sendJobs(t, job{ID: "back", Body: "b"}, job{ID: "large", Body: large}, job{ID: "away", Body: large})
		l.sendRaw(t, "junk")
		l.empty(t, time.Second)
		keys := map[string]string{}
		for _, p := range l.Poisoned("jobs") {
			keys[p.ID] = p.Key
			got, err := l.poison.Get(t.Context(), p.Key)
			if err != nil || got.ID != p.ID || string(got.Body) != string(p.Body) || got.Reason != p.Reason {
				t.Errorf("get %s: got %+v, %v", p.Key, got, err)
			}
		}
		worldtest.Want(t, "listed", len(keys), 4)
		for _, p := range l.Poisoned("others") {
			t.Errorf("in another queue: %+v", p)
		}
		for range l.poison.List(t.Context()) {
			break
		}

		fixed.Store(true)
		before := len(l.called())
		for _, id := range []string{"back", "large"} {
			if err := l.poison.Retry(t.Context(), keys[id]); err != nil {
				t.Fatal(err)
			}
		}
		l.empty(t, time.Second)
		for _, c := range l.called()[before:] {
			e := c.envelope
			if e.Attempts != 0 || e.HandBacks != 0 || e.LastError != "" || !e.FirstFailed.IsZero() || keys[e.ID] == "" {
				t.Errorf("sent back: got %+v; want its ID and no history", e)
			}
			if e.ID == "large" && c.job.Body != large {
				t.Errorf("sent back: a body of %d bytes", len(c.job.Body))
			}
		}
		worldtest.Want(t, "handled", len(l.called())-before, 2)
		worldtest.Want(t, "bodies: of the one to be discarded", len(worldtest.Claims(t, s)), 1)
		for _, id := range []string{"away", ""} {
			if err := l.poison.Discard(t.Context(), keys[id]); err != nil {
				t.Fatal(err)
			}
		}
		worldtest.Want(t, "bodies", len(worldtest.Claims(t, s)), 0)
		worldtest.Want(t, "left", len(l.Poisoned("jobs")), 0)
		for _, id := range []string{"back", "away", ""} {
			for name, f := range map[string]func(context.Context, string) error{"retry": l.poison.Retry, "discard": l.poison.Discard,
				"get": func(ctx context.Context, key string) error { _, err := l.poison.Get(ctx, key); return err }} {
				if err := f(t.Context(), keys[id]); !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("%s of what is gone: got %v, want %v", name, err, storage.ErrNotFound)
				}
			}
		}
	})
}

// A message that is put into the poison queue twice, because its deletion failed, is there once.
func TestPoisonedTwiceIsThereOnce(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		name := "delete"
		if s.Atomic() {
			name = "commit"
		}
		var done atomic.Bool
		l := newLab(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name != name || name == "commit" && !strings.Contains(op.Resource, "poison/") || !done.CompareAndSwap(false, true) {
				return do()
			}
			return op.Fail(storage.ErrUnavailable)
		}), func(context.Context, job) error { return handlers.Poison("bad", nil) })
		l.Start(worker.Config{Visibility: 6 * time.Second})
		l.sendJobs(t, job{ID: "x"})
		l.empty(t, time.Second)
		worldtest.Want(t, "handled", len(l.called()), 2)
		if p := l.onePoisoned(t); p.ID != "x" || p.Deliveries != 2 {
			t.Errorf("poisoned: got %+v", p)
		}
	})
}

// While the poison queue can't be written, the message is not lost.
func TestPoisonQueueDown(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var down atomic.Bool
		l := newLab(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if strings.HasPrefix(op.Resource, "blob poison/") && down.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), func(context.Context, job) error { return handlers.Poison("bad", nil) })
		down.Store(true)
		l.Start(worker.Config{Visibility: 6 * time.Second})
		l.sendJobs(t, job{ID: "x"})
		time.Sleep(20 * time.Second)
		down.Store(false)
		l.empty(t, time.Second)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 1)
	})
}

// All faults of a configuration are reported at once.
func TestConfigFaults(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nil)
		handlers.React(l.Registry, "jobs", func(context.Context, job) error { return nil })
		_, err := worker.New(l.Registry, worker.Config{
			Consume: []string{"jobs", "nowhere", "jobs"}, Concurrency: -1, MaxInHand: -2, MaxBodies: -8, Visibility: time.Millisecond, MaxAttempts: -3,
			MaxDeliveries: -4, UnknownFor: -5, DrainTimeout: -6, StuckAfter: -7,
			Queues: map[string]worker.QueueConfig{
				"jobs":      {PollInterval: -1, Concurrency: -9, MaxInHand: -10, MaxBodies: -11, Visibility: time.Second - 1, MaxAttempts: -12},
				"elsewhere": {Concurrency: 1},
			},
		})
		if err == nil {
			t.Fatal("got no error")
		}
		for _, want := range []string{"Concurrency", "MaxInHand", "MaxBodies", "Visibility", "MaxAttempts", "MaxDeliveries", "UnknownFor", "DrainTimeout", "StuckAfter",
			`queue "jobs": PollInterval is -1ns`, `queue "jobs": Concurrency is -9`, `queue "jobs": MaxInHand is -10`, `queue "jobs": MaxBodies is -11`,
			`queue "jobs": Visibility is 999.999999ms`, `queue "jobs": MaxAttempts is -12`, `Queues names queue "elsewhere", which is not consumed`, `"nowhere" has no handler`, "jobs is named twice", "has a handler for test.job.v1 already"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error doesn't tell of %s: %v", want, err)
			}
		}
		long := worker.Config{Visibility: storage.MaxVisibility + 1, Queues: map[string]worker.QueueConfig{"jobs": {Visibility: storage.MaxVisibility + 2}}}
		_, err = worker.New(l.Registry, long)
		for _, want := range []string{"worker: Visibility is 168h0m0.000000001s; want 1s to 168h0m0s", `queue "jobs": Visibility is 168h0m0.000000002s`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a visibility that no store takes: got %v, want %q", err, want)
			}
		}
		none := handlers.NewRegistry(l.Channels, handlers.Config{})
		if _, err := worker.New(none, worker.Config{}); err == nil || !strings.Contains(err.Error(), "no handler is registered") {
			t.Errorf("empty registry: got %v", err)
		}
	})
}

// gathered returns what a registry has counted, by name and labels.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, p := range m.GetLabel() {
				name += " " + p.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return got
}

func TestMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, j job) error {
			if j.Name == "bad" {
				return handlers.Poison("bad", nil)
			}
			return nil
		})
		registry := prometheus.NewRegistry()
		cfg := worker.Config{Metrics: registry, Logger: slog.New(slog.DiscardHandler)}
		l.Start(cfg)
		if _, err := worker.New(l.Registry, cfg); err == nil {
			t.Error("two workers with one registerer: got no error")
		}
		l.sendJobs(t, job{}, job{}, job{Name: "bad"})
		l.empty(t, time.Second)
		got := gathered(t, registry)
		for name, want := range map[string]float64{
			"millrace_deliveries_total done jobs": 2, "millrace_deliveries_total poisoned jobs": 1, "millrace_deliveries_total lost jobs": 0,
			"millrace_running jobs": 0, "millrace_consuming jobs": 1, "millrace_pickup_seconds jobs": 3, "millrace_handle_seconds jobs": 3, "millrace_lag_seconds jobs": 2,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s: got %v, want %v", name, v, want)
			}
		}
	})
}
