package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A handler that always says no gets attempts with growing delays. Then the message goes to the poison queue, with all
// that is known.
func TestAttemptsThenPoison(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(context.Context, job) error { return errors.New("no, and no again") })
		l.Start(worker.Config{Name: "worker-7"})
		began := time.Now()
		l.sendJobs(t, job{ID: "job-1", Body: "hello"})
		l.empty(t, time.Second)
		calls := l.called()
		if len(calls) != 5 {
			t.Fatalf("attempts: got %d, want 5", len(calls))
		}
		for i, c := range calls {
			worldtest.Want(t, "attempts in the envelope", c.envelope.Attempts, i)
			if i == 0 {
				continue
			}
			gap, want := c.at.Sub(calls[i-1].at), worker.RetryDelay(i, "job-1")
			if gap < want || gap > want+2*time.Second {
				t.Errorf("delay after attempt %d: got %v, want %v or little more", i, gap, want)
			}
			if c.envelope.LastError != "no, and no again" || !c.envelope.FirstFailed.Equal(calls[0].at) {
				t.Errorf("history: got %q, %v; want the handler's error and %v", c.envelope.LastError, c.envelope.FirstFailed, calls[0].at)
			}
		}
		p := l.onePoisoned(t)
		if p.Reason != handlers.ReasonAttempts || p.Error != "no, and no again" || p.Attempts != 5 || p.Deliveries != 5 ||
			p.Worker != "worker-7" || p.ID != "job-1" || p.Kind != "test.job.v1" || p.Queue != "jobs" {
			t.Errorf("poisoned: got %+v", p)
		}
		if p.First.Before(began) || p.First.After(calls[0].at.Add(time.Second)) || p.Last.Before(calls[4].at) {
			t.Errorf("poisoned: first %v, last %v; want those of the attempts", p.First, p.Last)
		}
		if !strings.Contains(string(p.Body), `"hello"`) {
			t.Errorf("poisoned: body %s; want the message whole", p.Body)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := 0
		l := newLab(t, patient(worldtest.OpenStore(t, worldtest.Virtual), time.Hour), func(context.Context, job) error {
			if n++; n <= 2 {
				return handlers.Retry(time.Hour, errors.New("not now"))
			}
			return nil
		})
		l.Start(worker.Config{})
		l.sendJobs(t, job{ID: "x"})
		l.empty(t, time.Minute)
		calls := l.called()
		if len(calls) != 3 {
			t.Fatalf("calls: got %d, want 3", len(calls))
		}
		for i := 1; i < 3; i++ {
			if gap := calls[i].at.Sub(calls[i-1].at); gap < time.Hour || gap > time.Hour+2*time.Second {
				t.Errorf("gap %d: got %v, want an hour", i, gap)
			}
		}
		worldtest.Want(t, "attempts spent", calls[2].envelope.Attempts, 2)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
	})
}

// Later spends no attempt, however often. Its deliveries don't count as silent ones either.
func TestLaterSpendsNothing(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		n := 0
		l := newLab(t, s, func(context.Context, job) error {
			if n++; n <= 25 {
				return handlers.Later(5*time.Second, "not yet")
			}
			return nil
		})
		l.Start(worker.Config{})
		l.sendJobs(t, job{})
		l.empty(t, 5*time.Second)
		calls := l.called()
		worldtest.Want(t, "calls", len(calls), 26)
		last := calls[len(calls)-1].envelope
		worldtest.Want(t, "attempts", last.Attempts, 0)
		worldtest.Want(t, "hand-backs", last.HandBacks, 25)
		if took := calls[25].at.Sub(calls[0].at); took < 125*time.Second {
			t.Errorf("25 times later took %v; want 5 s each", took)
		}
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
	})
}

func TestPoisonVerdictAndPanic(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(_ context.Context, j job) error {
			switch j.Name {
			case "poison":
				return fmt.Errorf("wrapped: %w", handlers.Poison("no such customer", errors.New("customer 7")))
			case "panic":
				panic("boom")
			}
			return nil
		})
		l.Start(worker.Config{MaxAttempts: 2})
		l.sendJobs(t, job{Name: "poison"}, job{Name: "fine"}, job{Name: "panic"}, job{Name: "fine"})
		l.empty(t, time.Second)
		got := map[string]poison.Entry{}
		for _, p := range l.Poisoned("jobs") {
			got[p.Reason] = p
		}
		if p := got["no such customer"]; p.Attempts != 1 || !strings.Contains(p.Error, "customer 7") || p.Deliveries != 1 {
			t.Errorf("poisoned by its handler: got %+v", p)
		}
		if p := got[handlers.ReasonAttempts]; p.Attempts != 2 || !strings.Contains(p.Error, "boom") {
			t.Errorf("poisoned after panics: got %+v", p)
		}
		worldtest.Want(t, "poisoned", len(got), 2)
		worldtest.Want(t, "calls", len(l.called()), 5)
	})
}

func TestRetryDelayIsPureGrowingAndSpread(t *testing.T) {
	t.Parallel()
	spread := map[time.Duration]bool{}
	for i := range 100 {
		id := fmt.Sprint("id-", i)
		spread[worker.RetryDelay(1, id)] = true
		base := time.Second
		for failed := 1; failed <= 20; failed++ {
			d := worker.RetryDelay(failed, id)
			if d != worker.RetryDelay(failed, id) {
				t.Fatalf("the same question has two answers")
			}
			if d < base*8/10 || d > base*12/10 {
				t.Errorf("delay %d: got %v, want %v more or less up to a fifth", failed, d, base)
			}
			base = min(2*base, 5*time.Minute)
		}
	}
	if len(spread) < 50 {
		t.Errorf("100 messages come back at %d different times", len(spread))
	}
	for _, failed := range []int{-1, 0, 1 << 40} {
		if d := worker.RetryDelay(failed, ""); d <= 0 || d > 6*time.Minute {
			t.Errorf("RetryDelay(%d): got %v", failed, d)
		}
	}
}

// A RetryDelay of the user's may return any delay.
func TestOddRetryDelays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, seldom(worldtest.OpenStore(t, worldtest.Virtual)), func(context.Context, job) error { return errors.New("no") })
		delays := []time.Duration{-time.Hour, 0, 30 * day}
		l.Start(worker.Config{MaxAttempts: 4, Visibility: 12 * time.Hour, RetryDelay: func(failed int, _ string) time.Duration { return delays[failed-1] }})
		began := time.Now()
		l.sendJobs(t, job{})
		l.empty(t, day)
		calls := l.called()
		worldtest.Want(t, "attempts", len(calls), 4)
		if d := calls[2].at.Sub(began); d > 5*time.Second {
			t.Errorf("third attempt after %v; want at once", d)
		}
		if d := calls[3].at.Sub(began); d < delays[2] || d > delays[2]+poll {
			t.Errorf("fourth attempt after %v; want %v", d, delays[2])
		}
	})
}

// A message that kills its worker each time is delivered MaxDeliveries times and then given up, without being handled.
func TestSilentDeliveries(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(context.Context, job) error { return nil })
		die := func(times int) {
			for range times {
				ds, err := s.Queue("jobs").Receive(t.Context(), 10, time.Second)
				if err != nil || len(ds) != 1 {
					t.Fatalf("got %d messages, %v", len(ds), err)
				}
				time.Sleep(time.Second)
			}
		}
		l.sendJobs(t, job{ID: "patient"})
		die(3)
		stop := l.Start(worker.Config{MaxDeliveries: 4})
		l.empty(t, time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "handled after 3 silent deliveries", len(l.called()), 1)

		l.sendJobs(t, job{ID: "killer"})
		die(4)
		l.Start(worker.Config{MaxDeliveries: 4})
		l.empty(t, time.Second)
		worldtest.Want(t, "handled after 4", len(l.called()), 1)
		if p := l.onePoisoned(t); p.Reason != handlers.ReasonDeliveries || p.Attempts != 0 || p.Deliveries != 5 || p.ID != "killer" {
			t.Errorf("poisoned: got %+v", p)
		}
	})
}

// A message of an unknown kind is handed back with growing delay, because a newer worker may know it.
func TestUnknownKind(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		l := newLab(t, storagetest.Intercept(patient(s, 30*time.Second), calls.Hook), func(context.Context, job) error { return nil })
		l.Start(worker.Config{UnknownFor: time.Hour})
		began := time.Now()
		l.sendRaw(t, raw("new-1", "test.new.v9", map[string]int{"n": 1}))
		time.Sleep(59 * time.Minute)
		if n := calls.Count("rewrite"); n < 12 || n > 25 {
			t.Errorf("handed back %d times in an hour; want growing delays up to 5 minutes", n)
		}
		worldtest.Want(t, "poisoned before the hour is over", len(l.Poisoned("jobs")), 0)
		l.empty(t, time.Minute)
		p := l.onePoisoned(t)
		if p.Reason != handlers.ReasonUnknownKind || p.Attempts != 0 || p.ID != "new-1" || p.Kind != "test.new.v9" || !strings.Contains(p.Error, "test.new.v9") {
			t.Errorf("poisoned: got %+v", p)
		}
		if d := p.Last.Sub(began); d < time.Hour || d > time.Hour+7*time.Minute {
			t.Errorf("given up after %v; want a little more than an hour", d)
		}
	})
}

func TestUnknownKindWaitsForANewerWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		old := newNoKinds(t, patient(worldtest.OpenStore(t, worldtest.Virtual), time.Minute))
		old.Start(worker.Config{})
		newer := newLab(t, old.Store, func(context.Context, job) error { return nil })
		newer.sendJobs(t, job{ID: "early"})
		time.Sleep(10 * time.Minute)
		worldtest.Want(t, "known yet", len(newer.called()), 0)
		newer.Start(worker.Config{})
		newer.empty(t, time.Second)
		calls := newer.called()
		if len(calls) != 1 || calls[0].envelope.Attempts != 0 || calls[0].envelope.ID != "early" {
			t.Errorf("got %+v; want the message, with no attempt spent", calls)
		}
	})
}

// other is another kind in the jobs' queue.
type other struct{}

func (other) Kind() channel.Kind { return "test.other.v1" }

// newNoKinds is a worker's world that consumes the jobs' queue but doesn't know jobs.
func newNoKinds(t testing.TB, s *storage.Store) *world {
	t.Helper()
	w := newBare(t, s, channel.Command[other]("jobs"))
	handlers.React(w.Registry, "jobs", func(context.Context, other) error { return nil })
	return w
}

// A message that can't be decoded goes to the poison queue at once, whole.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(context.Context, job) error { return nil })
		l.Start(worker.Config{})
		bodies := []string{"", "garbage \xff\x00", `{"specversion":"0.3"}`, raw("bad", "test.job.v1", "not an object"), `{}`}
		for _, b := range bodies {
			l.sendRaw(t, b)
		}
		began := time.Now()
		l.empty(t, 10*time.Millisecond)
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("took %v; want at once", d)
		}
		found := map[string]bool{}
		for _, p := range l.Poisoned("jobs") {
			if p.Reason != handlers.ReasonUndecodable || p.Attempts != 0 || p.Deliveries != 1 || p.Error == "" {
				t.Errorf("poisoned: got %+v", p)
			}
			found[string(p.Body)] = true
		}
		for _, b := range bodies {
			if !found[b] {
				t.Errorf("body %q is not in the poison queue as it was", b)
			}
		}
		worldtest.Want(t, "poisoned", len(found), len(bodies))
		worldtest.Want(t, "handled", len(l.called()), 0)
	})
}

// One command of a fold fails, by error or panic, after it has changed memory that the others share. It fails alone.
func TestOneOfAFoldFails(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := newWorld(t, s)
		w.decide = func(a Account, c Add) (Account, []channel.Message, error) {
			a.Balance += c.Amount
			a.Count++
			switch c.Note {
			case "error":
				return a, nil, errors.New("no")
			case "panic":
				panic("no")
			}
			return a, []channel.Message{Added{To: c.To, Amount: c.Amount}}, nil
		}
		for _, note := range []string{"", "error", "", "panic", "", ""} {
			worldtest.Send(w.World, Add{To: "a", Amount: 1, Note: note})
		}
		w.Start(worker.Config{MaxAttempts: 2})
		w.empty(t, time.Second)
		d, err := w.Accounts.Get(t.Context(), "a", "")
		if err != nil || d.Value != (Account{Balance: 4, Count: 4}) {
			t.Errorf("got %+v, %v; want 4 of 4", d.Value, err)
		}
		worldtest.Want(t, "poisoned", len(w.Poisoned("accounts")), 2)
		worldtest.Want(t, "audits", int(w.reacted.Load()), 4)
	})
}

// Messages that their document refuses for ever end in the poison queue: the same ID with other content, in the window
// and as a row, and a message too old to judge.
func TestMessagesThatADocumentRefusesArePoison(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := newWorld(t, s)
		stop := w.Start(worker.Config{})
		send := func(c Add) {
			t.Helper()
			worldtest.Send(w.World, c)
			w.empty(t, time.Second)
		}
		reasons := func(want map[string]int) {
			t.Helper()
			got := map[string]int{}
			for _, p := range w.Poisoned("accounts") {
				got[p.Reason]++
				if p.Attempts != 0 {
					t.Errorf("attempts spent on %s: %d", p.Reason, p.Attempts)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("poisoned: got %v, want %v", got, want)
			}
		}
		old := worldtest.IDAt(time.Now(), 1)
		send(Add{Key: "key", To: "a", Amount: 1})
		send(Add{Key: old, To: "a", Amount: 1})
		send(Add{Key: "key", To: "a", Amount: 2})
		send(Add{Key: "key", To: "a", Amount: 1})
		reasons(map[string]int{handlers.ReasonContentDiffers: 1})
		for i := range 200 {
			worldtest.Send(w.World, Add{Key: worldtest.IDAt(time.Now().Add(time.Second), 100+i), To: "a", Amount: 1})
			if i%40 == 39 {
				w.empty(t, time.Second)
			}
		}
		w.empty(t, time.Second)
		send(Add{Key: "key", To: "a", Amount: 3})
		send(Add{Key: old, To: "a", Amount: 4})
		send(Add{Key: old, To: "a", Amount: 1})
		reasons(map[string]int{handlers.ReasonContentDiffers: 3})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * 24 * time.Hour)
		w.Start(worker.Config{})
		send(Add{Key: old, To: "a", Amount: 1})
		reasons(map[string]int{handlers.ReasonContentDiffers: 3, handlers.ReasonTooOld: 1})
		d, err := w.Accounts.Get(t.Context(), "a", "")
		if err != nil || d.Value.Balance != 202 {
			t.Errorf("got %+v, %v; want 202", d.Value, err)
		}
	})
}

// A store that fails in the middle costs no attempts, however long it fails.
func TestStoreTroubleSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		name := "commit"
		if !s.Atomic() {
			name = "put blob"
		}
		link := storagetest.NewLink(patient(s, 5*time.Second))
		w := newWorld(t, link.Store)
		commands := worldtest.SenderOf[Add](t, w.Channels)
		link.Cut(name)
		w.Start(worker.Config{})
		for i := range 20 {
			if err := commands.Send(t.Context(), Add{To: fmt.Sprint("a-", i%3), Amount: 1}); err != nil && name != "commit" {
				t.Fatal(err)
			}
		}
		if name == "commit" { // sending needs it too
			link.Restore()
			for i := range 20 {
				worldtest.Send(w.World, Add{To: fmt.Sprint("a-", i%3), Amount: 1})
			}
			link.Cut(name)
		}
		time.Sleep(time.Minute)
		link.Restore()
		w.empty(t, time.Second)
		synctest.Wait()
		worldtest.Want(t, "poisoned", len(w.Poisoned("accounts"))+len(w.Poisoned("totals")), 0)
		sum := 0
		for i := range 3 {
			d, err := w.Accounts.Get(t.Context(), fmt.Sprint("a-", i), "")
			if err != nil {
				t.Fatal(err)
			}
			sum += d.Value.Balance
		}
		worldtest.Want(t, "total", sum, 20)
	})
}
