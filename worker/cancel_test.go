package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// cancel cancels a job.
func (l *lab) cancel(t testing.TB, id string) error {
	t.Helper()
	return worldtest.SenderOf[job](t, l.Channels).Cancel(t.Context(), id)
}

// tombstones counts those of the queue of jobs.
func tombstones(t testing.TB, s *storage.Store) (n int) {
	t.Helper()
	for _, err := range s.Table("cancelled").Query(t.Context(), "jobs", storage.RowRange{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// A cancelled message is not handled, nor is another copy of it, and nothing of it is left. Where the store finds
// messages, it is gone at once.
func TestCancelledMessageIsNotHandled(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		metrics := prometheus.NewRegistry()
		l := newLab(t, seldom(s), func(context.Context, job) error { return nil })
		l.Start(worker.Config{Metrics: metrics})
		large := job{ID: "large", Body: strings.Repeat("x", 100_000)}
		due := l.sendJobsAfter(t, 20*day, job{ID: "a"}, job{ID: "a"}, large, job{ID: "kept"})
		l.sendJobsAfter(t, time.Hour, job{ID: "soon"})
		time.Sleep(time.Minute)
		for _, id := range []string{"a", "large", "soon"} {
			worldtest.WantErr(t, l.cancel(t, id), nil)
		}
		synctest.Wait()
		if s.Finds() {
			worldtest.Want(t, "queued", worldtest.Queued(t, s, "jobs"), 1)
			worldtest.Want(t, "bodies", len(worldtest.Claims(t, s)), 0)
			worldtest.WantErr(t, l.cancel(t, "a"), channel.ErrNotDelayed)
		}
		l.empty(t, day)
		if c := l.onTime(t, due); c.job.ID != "kept" {
			t.Errorf("handled %s; want the one that was not cancelled", c.job.ID)
		}
		worldtest.Want(t, "bodies", len(worldtest.Claims(t, s)), 0)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
		if !s.Finds() {
			worldtest.Want(t, "counted", int(gathered(t, metrics)["millrace_deliveries_total cancelled jobs"]), 4)
		}
	})
}

// Either Cancel gets a message or a worker does, and Cancel knows which, where the store finds messages.
func TestCancelledOrHandled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 100
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(context.Context, job) error { return nil })
		l.Start(worker.Config{})
		jobs := make([]job, n)
		for i := range jobs {
			jobs[i].ID = fmt.Sprint("job-", i)
		}
		due := l.sendJobsAfter(t, time.Hour, jobs...)
		var mu sync.Mutex
		cancelled := map[string]bool{}
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				time.Sleep(time.Until(due) + time.Duration(i%3-1)*time.Nanosecond)
				err := l.cancel(t, jobs[n-1-i].ID)
				if err != nil && !errors.Is(err, channel.ErrNotDelayed) {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				cancelled[jobs[n-1-i].ID] = err == nil
			})
		}
		all.Wait()
		l.empty(t, time.Second)
		handled := map[string]int{}
		for _, c := range l.called() {
			handled[c.job.ID]++
		}
		for _, j := range jobs {
			if got, want := handled[j.ID], map[bool]int{true: 0, false: 1}[cancelled[j.ID]]; got != want {
				t.Errorf("%s: cancelled is %v, handled %d times", j.ID, cancelled[j.ID], got)
			}
		}
		t.Logf("%d of %d were handled", len(handled), n)
	})
}

// A worker holds a message that is not due for a moment, to hand it back. Cancel gets it then, too.
func TestCancelOnTheWay(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		rewriting := make(chan struct{}, 10)
		slow := storagetest.Intercept(seldom(s), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "rewrite" {
				rewriting <- struct{}{}
				time.Sleep(3 * time.Second)
			}
			return do()
		})
		l := newLab(t, slow, func(context.Context, job) error { return nil })
		l.Start(worker.Config{})
		l.sendJobsAfter(t, 8*day, job{ID: "a"})
		<-rewriting
		worldtest.WantErr(t, l.cancel(t, "a"), nil)
		l.empty(t, time.Hour)
		worldtest.Want(t, "handled", len(l.called()), 0)
	})
}

// Cancel says that it is too late once a handler has a message, or has had it, where the store finds messages.
func TestCancelTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fail := true
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, j job) error {
			time.Sleep(10 * time.Second)
			if j.ID == "failing" && fail {
				return handlers.Retry(time.Minute, errors.New("no"))
			}
			return nil
		})
		worldtest.WantErr(t, l.cancel(t, "never sent"), channel.ErrNotDelayed)
		l.sendJobs(t, job{ID: "without a delay"})
		worldtest.WantErr(t, l.cancel(t, "without a delay"), channel.ErrNotDelayed)
		l.Start(worker.Config{})
		due := l.sendJobsAfter(t, time.Hour, job{ID: "good"}, job{ID: "failing"})
		for after, what := range map[time.Duration]string{5 * time.Second: "running", 15 * time.Second: "handled, or waiting for its next attempt"} {
			time.Sleep(time.Until(due.Add(after)))
			for _, id := range []string{"good", "failing"} {
				if err := l.cancel(t, id); !errors.Is(err, channel.ErrNotDelayed) || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "jobs") {
					t.Errorf("%s is %s: got %v", id, what, err)
				}
			}
		}
		fail = false
		l.empty(t, time.Minute)
		worldtest.Want(t, "handled", len(l.called()), 4)
		worldtest.WantErr(t, l.cancel(t, ""), channel.ErrAttribute)
	})
}

// A message that its handler has had is not cancelled while it waits for its next attempt, however long that is: it may
// be applied.
func TestCancelAfterALongRetry(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		tries := map[string]int{}
		l := newLab(t, seldom(s), func(_ context.Context, j job) error {
			tries[j.ID]++
			switch {
			case tries[j.ID] > 1:
				return nil
			case j.ID == "retry":
				return handlers.Retry(8*day, errors.New("no"))
			}
			return handlers.Later(8*day, "not yet")
		})
		l.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 1}}})
		l.sendJobsAfter(t, time.Hour, job{ID: "retry"}, job{ID: "later"})
		l.sendJobs(t, job{ID: "retry at once"}) // it has no delay but that of its handler
		time.Sleep(day)
		for _, id := range []string{"retry", "later", "retry at once"} {
			if err := l.cancel(t, id); s.Finds() != errors.Is(err, channel.ErrNotDelayed) || !s.Finds() && err != nil {
				t.Errorf("%s: got %v", id, err)
			}
		}
		l.empty(t, day)
		worldtest.Want(t, "handled", fmt.Sprint(tries), "map[later:2 retry:2 retry at once:2]")
	})
}

// A worker that stops hands back what no handler has had. That can still be cancelled.
func TestCancelAfterAStop(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		running := make(chan struct{}, 1)
		l := newLab(t, seldom(s), func(_ context.Context, j job) error {
			running <- struct{}{}
			time.Sleep(10 * time.Second)
			return nil
		})
		cfg := worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 1}}}
		l.sendJobsAfter(t, time.Hour, job{ID: "a"}, job{ID: "b"}, job{ID: "c"})
		stop := l.Start(cfg)
		<-running
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b", "c"} {
			if err := l.cancel(t, id); err != nil && (!s.Finds() || id != l.called()[0].job.ID) {
				t.Errorf("%s: got %v", id, err)
			}
		}
		l.Start(cfg)
		l.empty(t, time.Minute)
		worldtest.Want(t, "handled", len(l.called()), 1)
	})
}

// A race against a worker is lost without a word, where a tombstone stands for the cancellation: the worker that has
// taken the message before handles it.
func TestCancelByTombstoneTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, patient(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), time.Second), func(_ context.Context, j job) error {
			time.Sleep(time.Minute)
			return nil
		})
		l.Start(worker.Config{})
		due := l.sendJobsAfter(t, time.Hour, job{ID: "a"})
		time.Sleep(time.Until(due) + 30*time.Second)
		worldtest.WantErr(t, l.cancel(t, "a"), nil)
		l.empty(t, time.Minute)
		worldtest.Want(t, "handled", len(l.called()), 1)
	})
}

// A worker dies with a message that was cancelled in time. The worker that gets it next finds the tombstone.
func TestTombstoneSurvivesAWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual))
		l := newLab(t, patient(s, time.Second), func(context.Context, job) error { return nil })
		due := l.sendJobsAfter(t, time.Hour, job{ID: "in time"}, job{ID: "late"})
		worldtest.WantErr(t, l.cancel(t, "in time"), nil)
		time.Sleep(time.Until(due))
		if ds, err := s.Queue("jobs").Receive(t.Context(), 10, time.Minute); err != nil || len(ds) != 2 {
			t.Fatalf("got %d messages, %v", len(ds), err)
		}
		// The late one may be applied by now, and what it brought about not sent yet. So it stays.
		worldtest.WantErr(t, l.cancel(t, "late"), nil)
		time.Sleep(time.Minute)
		l.Start(worker.Config{})
		l.empty(t, time.Second)
		if calls := l.called(); len(calls) != 1 || calls[0].job.ID != "late" {
			t.Errorf("handled %+v; want the late one", calls)
		}
	})
}

// A message that is sent again after its cancellation is another one.
func TestSameIDAfterCancel(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, seldom(s), func(context.Context, job) error { return nil })
		l.sendJobsAfter(t, 10*day, job{ID: "a", Name: "first"})
		time.Sleep(time.Second)
		worldtest.WantErr(t, l.cancel(t, "a"), nil)
		time.Sleep(time.Second)
		due := l.sendJobsAfter(t, 5*day, job{ID: "a", Name: "second"})
		l.Start(worker.Config{})
		l.empty(t, day)
		worldtest.Want(t, "handled", l.onTime(t, due).job.Name, "second")
	})
}

// Tombstones go a month after their messages have come, as others come.
func TestTombstonesGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual))
		l := newLab(t, seldom(s), func(context.Context, job) error { return nil })
		l.Start(worker.Config{})
		for month := range 12 {
			for i := range 20 {
				id := fmt.Sprint(month, "-", i)
				l.sendJobsAfter(t, 2*day, job{ID: id})
				worldtest.WantErr(t, l.cancel(t, id), nil)
			}
			time.Sleep(35 * day)
		}
		worldtest.Want(t, "handled", len(l.called()), 0)
		if n := tombstones(t, s); n < 20 || n > 60 {
			t.Errorf("%d tombstones are left of 240; want those of the last month, and some", n)
		}
	})
}

// Tombstones of messages that never come go, too, once no message can come for them. So do those that came too late for
// a message that is handled.
func TestTombstonesWithoutAMessageGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual))
		l := newLab(t, seldom(s), func(context.Context, job) error { return handlers.Retry(8*day, errors.New("no")) })
		cancel := func(of string) {
			for i := range 40 {
				worldtest.WantErr(t, l.cancel(t, fmt.Sprint(of, i)), nil)
			}
		}
		cancel("never sent ")
		time.Sleep(11 * 365 * day)
		cancel("others ")
		if n := tombstones(t, s); n < 40 || n > 50 {
			t.Errorf("%d tombstones are left of 80; want the 40 new ones, and some", n)
		}
		for i := range 40 {
			l.sendJobsAfter(t, time.Hour, job{ID: fmt.Sprint("failing ", i)})
		}
		l.Start(worker.Config{MaxAttempts: 2})
		time.Sleep(2 * day)
		cancel("failing ")
		l.empty(t, day)
		worldtest.Want(t, "handled", len(l.called()), 80)
		time.Sleep(60 * day)
		before := tombstones(t, s)
		cancel("more ")
		if n := before + 40 - tombstones(t, s); n < 30 {
			t.Errorf("%d tombstones of messages that were handled have gone; want most of 40", n)
		}
	})
}

// Cancel concerns one kind of messages, whatever others have the ID. An event is taken back from all groups.
func TestCancelAnEvent(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var mu sync.Mutex
		got := map[string]int{}
		count := func(what string) { mu.Lock(); defer mu.Unlock(); got[what]++ }
		w := newBare(t, seldom(s), channel.Event[job]("one", "two"), channel.Command[errand]("one"))
		for _, group := range []string{"one", "two"} {
			handlers.React(w.Registry, group, func(context.Context, job) error { count("job"); return nil })
		}
		handlers.React(w.Registry, "one", func(context.Context, errand) error { count("errand"); return nil })
		w.Start(worker.Config{})
		if err := w.Channels.Send(t.Context(), channel.After(day, job{ID: "a"}), channel.After(day, errand{ID: "a"})); err != nil {
			t.Fatal(err)
		}
		worldtest.WantErr(t, worldtest.SenderOf[job](t, w.Channels).Cancel(t.Context(), "a"), nil)
		w.empty(t, day)
		worldtest.Want(t, "handled", fmt.Sprint(got), "map[errand:1]")
	})
}

// errand is another kind of messages than job.
type errand struct{ ID string }

func (errand) Kind() channel.Kind  { return "test.errand.v1" }
func (e errand) MessageID() string { return e.ID }

// A handler cancels what another one has emitted. The message has the ID that the program chose.
func TestCancelAnEmissionFromAHandler(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := &world{World: worldtest.New(t, seldom(s), worldtest.Config{Routes: []channel.Route{channel.Command[job]("jobs")}})}
		handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(a Account, c Add) (Account, []channel.Message, error) {
			a.Count++
			return a, []channel.Message{channel.After(10*day, job{ID: "reminder of " + c.To}), Added{To: c.To}}, nil
		}, job{}, Added{})
		reminders := worldtest.SenderOf[job](t, w.Channels)
		var errs []error
		handlers.React(w.Registry, worldtest.Audits, func(ctx context.Context, e Added) error {
			if e.To != "paid" {
				return nil
			}
			errs = append(errs, reminders.Cancel(ctx, "reminder of "+e.To))
			return nil
		})
		var reminded []string
		handlers.React(w.Registry, "jobs", func(_ context.Context, j job) error { reminded = append(reminded, j.ID); return nil })
		handlers.React(w.Registry, worldtest.Totals, func(context.Context, Added) error { return nil })
		w.Start(worker.Config{Queues: map[string]worker.QueueConfig{worldtest.Audits: {Concurrency: 1}}})
		worldtest.Send(w.World, Add{To: "paid"}, Add{To: "unpaid"})
		w.empty(t, day)
		worldtest.Want(t, "reminded", fmt.Sprint(reminded), "[reminder of unpaid]")
		worldtest.Want(t, "cancelled", fmt.Sprint(errs), "[<nil>]")
	})
}

// A store that fails while a worker looks for a tombstone costs no attempt, and the message stays cancelled.
func TestTombstoneInTrouble(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		link := storagetest.NewLink(patient(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), time.Second))
		l := newLab(t, link.Store, func(context.Context, job) error { return nil })
		due := l.sendJobsAfter(t, time.Hour, job{ID: "a"}, job{ID: "kept"})
		worldtest.WantErr(t, l.cancel(t, "a"), nil)
		l.Start(worker.Config{MaxAttempts: 1})
		link.Cut("get row")
		time.Sleep(time.Until(due) + time.Minute)
		worldtest.Want(t, "handled", len(l.called()), 0)
		link.Restore()
		l.empty(t, time.Second)
		calls := l.called()
		if len(calls) != 1 || calls[0].job.ID != "kept" || calls[0].envelope.Attempts != 0 {
			t.Errorf("handled %+v; want the one that was not cancelled, without an attempt spent", calls)
		}
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
	})
}

// A message without a delay costs no look for a tombstone.
func TestTombstonesAreLookedForWhereThereMayBeOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls storagetest.Calls
		s := storagetest.Intercept(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), calls.Hook)
		l := newLab(t, s, func(context.Context, job) error { return nil })
		l.sendJobs(t, job{}, job{})
		l.sendJobsAfter(t, time.Hour, job{})
		l.Start(worker.Config{})
		l.empty(t, time.Minute)
		worldtest.Want(t, "handled", len(l.called()), 3)
		worldtest.Want(t, "looks", calls.Count("get row"), 1)
	})
}
