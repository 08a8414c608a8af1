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

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// mortal is a store as seen by a process that dies when a message kills it. From then on no call has an effect, and
// calls under way return no result.
func mortal(s *storage.Store) (*storage.Store, *atomic.Bool) {
	var dead atomic.Bool
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if dead.Load() {
			return op.Fail(storage.ErrUnavailable)
		}
		err := do()
		if dead.Load() {
			return op.Fail(storage.ErrUnavailable)
		}
		return err
	}), &dead
}

// restarted runs one process after the other, each until it dies, until the queues are empty. It returns how many died.
func restarted(t *testing.T, s *storage.Store, cfg worker.Config, newProcess func(s *storage.Store, die func()) *world) (deaths int) {
	t.Helper()
	for range 200 {
		dying, dead := mortal(s)
		w := newProcess(dying, func() { dead.Store(true) })
		stop := w.Start(cfg)
		left := func() (n int64) {
			for _, q := range w.Channels.Routes().Queues() {
				st := stats(t, s, q)
				n += st.Ready + st.InFlight + st.Delayed
			}
			return n
		}
		for !dead.Load() && left() > 0 {
			time.Sleep(20 * time.Millisecond)
		}
		stop()
		if !dead.Load() {
			return deaths
		}
		deaths++
	}
	t.Fatal("the queues don't get empty")
	return 0
}

// newTwoQueues is a process with a reaction in each of two queues.
func newTwoQueues(t *testing.T, s *storage.Store, onJob func(context.Context, job) error, onOther func(context.Context, other) error) *world {
	t.Helper()
	w := newBare(t, s, channel.Command[job]("jobs"), channel.Command[other]("others"))
	handlers.React(w.Registry, "jobs", onJob)
	handlers.React(w.Registry, "others", onOther)
	return w
}

// Messages that kill their worker at once end in the poison queue. Messages that were in hand with them and take longer
// are handled, whatever queue they are in.
func TestKillersGoAlone(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		for _, limit := range []int{2, 3, 8} {
			var handled sync.Map
			newProcess := func(s *storage.Store, die func()) *world {
				kill := func() error { die(); return errors.New("dead") }
				return newTwoQueues(t, s, func(_ context.Context, j job) error {
					if strings.HasPrefix(j.Name, "killer") {
						return kill()
					}
					time.Sleep(200 * time.Millisecond)
					handled.Store(j.Name, true)
					return nil
				}, func(context.Context, other) error { return kill() })
			}
			w := newProcess(s, nil)
			jobs, err := channel.NewSender[job](w.Channels)
			if err != nil {
				t.Fatal(err)
			}
			others, err := channel.NewSender[other](w.Channels)
			if err != nil {
				t.Fatal(err)
			}
			const neighbours = 40
			send := func(j job) {
				t.Helper()
				if err := jobs.Send(t.Context(), j); err != nil {
					t.Fatal(err)
				}
			}
			for i := range neighbours {
				if i == 7 {
					send(job{Name: "killer"})
				}
				if i == 9 {
					send(job{Name: "killer, large", Body: strings.Repeat("x", 60_000)})
				}
				send(job{Name: fmt.Sprint("neighbour ", i), Body: strings.Repeat("x", 60_000*(i%2))})
			}
			if err := others.Send(t.Context(), other{}); err != nil {
				t.Fatal(err)
			}
			deaths := restarted(t, s, worker.Config{Visibility: 3 * time.Second, MaxDeliveries: limit, Concurrency: 16, DrainTimeout: time.Second}, newProcess)
			if deaths < limit || deaths > 3*limit {
				t.Errorf("limit %d: %d deaths by three killers", limit, deaths)
			}
			count := 0
			handled.Range(func(any, any) bool { count++; return true })
			worldtest.Want(t, "neighbours handled", count, neighbours)
			for queue, killers := range map[string]int{"jobs": 2, "others": 1} {
				all := w.Poisoned(queue)
				for _, p := range all {
					killer := queue == "others" || strings.Contains(string(p.Body), "killer") || strings.Contains(string(p.Body), "dataref")
					if p.Reason != handlers.ReasonDeliveries || !killer {
						t.Errorf("limit %d: poisoned in %s: %s after %d deliveries: %.200s", limit, queue, p.Reason, p.Deliveries, p.Body)
					}
					if err := poison.At(w.Channels, queue).Discard(t.Context(), p.Key); err != nil {
						t.Fatal(err)
					}
				}
				worldtest.Want(t, fmt.Sprintf("limit %d: poisoned in %s", limit, queue), len(all), killers)
			}
		}
	})
}

// The same holds among messages that are folded together.
func TestKillerOfAFoldGoesAlone(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		newProcess := func(s *storage.Store, die func()) *world {
			w := newWorld(t, s)
			decide := w.decide
			w.decide = func(a Account, c Add) (Account, []channel.Message, error) {
				if c.Note == "killer" {
					die()
					return a, nil, errors.New("dead")
				}
				time.Sleep(10 * time.Millisecond)
				return decide(a, c)
			}
			return w
		}
		w := newProcess(s, nil)
		for i := range 20 {
			note := ""
			if i == 5 {
				note = "killer"
			}
			worldtest.Send(w.World, Add{To: "a", Amount: 1, Note: note})
		}
		deaths := restarted(t, s, worker.Config{Visibility: 3 * time.Second, MaxDeliveries: 6, DrainTimeout: time.Second}, newProcess)
		worldtest.Want(t, "deaths", deaths, 6)
		if d, err := w.Accounts.Get(t.Context(), "a", ""); err != nil || d.Value != (Account{Balance: 19, Count: 19}) {
			t.Errorf("got %+v, %v; want all but the killer", d.Value, err)
		}
		all := w.Poisoned("accounts")
		if len(all) != 1 || all[0].Reason != handlers.ReasonDeliveries || !strings.Contains(string(all[0].Body), "killer") {
			t.Errorf("poisoned: got %+v; want the killer", all)
		}
	})
}

// silence receives all visible messages without a report, as often as makes suspects of them.
func silence(t *testing.T, s *storage.Store, queue string, want int) {
	t.Helper()
	for range 3 {
		ds, err := s.Queue(queue).Receive(t.Context(), want, time.Second)
		if err != nil || len(ds) != want {
			t.Fatalf("got %d messages, %v; want %d", len(ds), err, want)
		}
		time.Sleep(time.Second)
	}
}

// Many suspects (the store had failed) come one after the other. They are not handed back again and again meanwhile.
func TestManySuspects(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const n = 100
		var calls storagetest.Calls
		var running, suspects, together atomic.Int64
		l := newLab(t, storagetest.Intercept(s, calls.Hook), func(_ context.Context, j job) error {
			if j.Name == "suspect" {
				suspects.Add(1)
				if running.Add(1) > 1 {
					together.Add(1)
				}
				time.Sleep(50 * time.Millisecond)
				running.Add(-1)
			}
			return nil
		})
		jobs := make([]job, n)
		for i := range jobs {
			jobs[i].Name = "suspect"
		}
		l.sendJobs(t, jobs...)
		silence(t, s, "jobs", n)
		l.sendJobs(t, make([]job, n)...)
		l.Start(worker.Config{})
		l.empty(t, 100*time.Millisecond)
		worldtest.Want(t, "suspects handled", int(suspects.Load()), n)
		worldtest.Want(t, "beside another", int(together.Load()), 0)
		worldtest.Want(t, "handled", len(l.called()), 2*n)
		if handed := calls.Count("rewrite"); handed > 5*n {
			t.Errorf("handed back %d times to handle %d suspects", handed, n)
		}
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
	})
}

// A suspect whose handler hangs holds up other messages for StuckAfter, and other suspects until it ends.
func TestHangingSuspect(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		l := newLab(t, storagetest.Intercept(patient(s, time.Second), calls.Hook), func(_ context.Context, j job) error {
			if j.Name == "hanging" {
				time.Sleep(20 * time.Minute)
			}
			return nil
		})
		names := func() (all []string) {
			for _, c := range l.called() {
				all = append(all, c.job.Name)
			}
			return all
		}
		l.sendJobs(t, job{Name: "hanging"})
		silence(t, s, "jobs", 1)
		log := worldtest.NewLog()
		stop := l.Start(worker.Config{StuckAfter: time.Minute, DrainTimeout: 30 * time.Second, Logger: slog.New(log)})
		time.Sleep(time.Second)
		l.sendJobs(t, job{Name: "other"})
		silence(t, s, "jobs", 1)
		l.sendJobs(t, job{Name: "fresh"})
		time.Sleep(55 * time.Second)
		worldtest.Want(t, "handled beside it at first", len(names()), 1)
		time.Sleep(3 * time.Second)
		if got := names(); len(got) != 2 || got[1] != "fresh" {
			t.Errorf("handled after StuckAfter: got %q, want the fresh one", got)
		}
		time.Sleep(15 * time.Minute)
		worldtest.Want(t, "handled while it hangs", len(names()), 2)
		if n := calls.Count("rewrite"); n > 10 {
			t.Errorf("the other suspect was handed back %d times", n)
		}
		time.Sleep(10 * time.Minute)
		if got := names(); len(got) != 3 || got[2] != "other" {
			t.Errorf("handled in the end: got %q, want the other suspect", got)
		}
		if log.Count("isolating it") < 2 {
			t.Error("nobody was told")
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A worker stops in time even if a suspect holds up receiving.
func TestStopBesideASuspect(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(ctx context.Context, _ job) error { <-ctx.Done(); return ctx.Err() })
		l.sendJobs(t, job{ID: "suspect"})
		silence(t, s, "jobs", 1)
		stop := l.Start(worker.Config{DrainTimeout: 5 * time.Second})
		time.Sleep(time.Second)
		l.sendJobs(t, job{ID: "fresh"})
		time.Sleep(time.Second)
		began := time.Now()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d > 6*time.Second {
			t.Errorf("stopped after %v; want 5 s", d)
		}
		ds, err := s.Queue("jobs").Receive(t.Context(), 10, time.Minute)
		if err != nil || len(ds) != 2 {
			t.Fatalf("left: got %d messages, %v; want both", len(ds), err)
		}
		for _, d := range ds {
			e, err := wire.Decode(d.Body)
			want := map[string][2]int{"suspect": {5, 1}, "fresh": {1, 0}}[e.ID] // deliveries, this one included; hand-backs
			if err != nil || d.Deliveries != want[0] || e.HandBacks != want[1] || e.Attempts != 0 {
				t.Errorf("%s: got %d deliveries, %d hand-backs, %d attempts, %v", e.ID, d.Deliveries, e.HandBacks, e.Attempts, err)
			}
		}
	})
}
