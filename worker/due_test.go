package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

const (
	day  = 24 * time.Hour
	poll = 12 * time.Hour // of idle workers in these tests
)

// seldom is a store for tests of years. It doesn't ring: SQLite rings every five minutes while a message is delayed.
func seldom(s *storage.Store) *storage.Store { return patient(storage.New(ringless{s.Driver()}), poll) }

type ringless struct{ driver.Store }

func (ringless) Listener() driver.Listener { return nil }

// sendJobsAfter sends jobs that are due after a delay, and returns when.
func (l *lab) sendJobsAfter(t testing.TB, delay time.Duration, jobs ...job) time.Time {
	t.Helper()
	due := time.Now().Add(delay)
	if err := worldtest.SenderOf[job](t, l.Channels).SendAfter(t.Context(), delay, jobs...); err != nil {
		t.Fatal(err)
	}
	return due
}

// onTime fails the test unless the handler ran once, when the message was due.
func (l *lab) onTime(t testing.TB, due time.Time) call {
	t.Helper()
	calls := l.called()
	if len(calls) != 1 {
		t.Fatalf("handled %d times; want once", len(calls))
	}
	if late := calls[0].at.Sub(due); late < 0 || late > poll {
		t.Errorf("handled %v after it was due", late)
	}
	return calls[0]
}

// A message is due in ten years. It comes more than 500 times before that: each time it is handed back, at the expense
// of nothing, and its body is left where it is.
func TestTenYears(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		log, metrics := worldtest.NewLog(), prometheus.NewRegistry()
		l := newLab(t, storagetest.Intercept(seldom(s), calls.Hook), func(context.Context, job) error { return nil })
		due := l.sendJobsAfter(t, channel.MaxDelay, job{ID: "small"}, job{ID: "large", Body: strings.Repeat("x", 100_000)})
		l.Start(worker.Config{MaxDeliveries: 3, UnknownFor: time.Second, Logger: slog.New(log), Metrics: metrics})
		time.Sleep(time.Until(due) - time.Minute)
		if n := calls.Count("rewrite"); n < 2*480 || n > 2*530 {
			t.Errorf("handed back %d times; want each message once in seven days", n)
		}
		worldtest.Want(t, "bodies fetched before they are due", calls.Count("get blob"), 0)
		worldtest.Want(t, "handled before it is due", len(l.called()), 0)
		l.empty(t, time.Hour)
		all := l.called()
		worldtest.Want(t, "handled", len(all), 2)
		for _, c := range all {
			if late := c.at.Sub(due); late < 0 || late > poll {
				t.Errorf("handled %v after it was due", late)
			}
			if e := c.envelope; e.Attempts != 0 || e.HandBacks != 0 || e.LastError != "" || !e.FirstFailed.IsZero() || e.Hops < 480 || !e.Due.Equal(due) {
				t.Errorf("got %+v; want hops alone", e)
			}
			if born := c.envelope.Born(); !born.Equal(due) {
				t.Errorf("its age counts from %v; want %v", born, due)
			}
		}
		worldtest.Want(t, "warnings and errors", log.Count("WARN")+log.Count("ERROR"), 0)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
		if took := sumOf(t, metrics, "millrace_pickup_seconds"); took > 2*poll.Seconds() {
			t.Errorf("picked up %v s after it was due", took)
		}
		if took := sumOf(t, metrics, "millrace_lag_seconds"); took > 2*poll.Seconds() {
			t.Errorf("handled %v s after it was due", took)
		}
	})
}

// sumOf adds up what a histogram has observed.
func sumOf(t testing.TB, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			sum += f.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	return sum
}

// Deliveries before the due time count as nothing, even those that end with the worker. Those after it count.
func TestNoDeliveryCountsBeforeTheDueTime(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, seldom(s), func(context.Context, job) error { return nil })
		die := func(times int) {
			for range times {
				ds, err := s.Queue("jobs").Receive(t.Context(), 10, time.Second)
				if err != nil || len(ds) != 1 {
					t.Fatalf("got %d messages, %v", len(ds), err)
				}
				time.Sleep(time.Second)
			}
		}
		due := l.sendJobsAfter(t, 30*day, job{ID: "late"})
		for range 3 {
			time.Sleep(storage.MaxDelay - time.Hour)
			die(5)
			stop := l.Start(worker.Config{MaxDeliveries: 3})
			time.Sleep(time.Hour)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Until(due))
		die(2)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
		l.Start(worker.Config{MaxDeliveries: 3})
		l.empty(t, time.Second)
		l.onTime(t, due)
	})
}

// A message that kills its worker once it is due is given up as any other.
func TestSilentDeliveriesCountOnceItIsDue(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, seldom(s), func(context.Context, job) error { return nil })
		due := l.sendJobsAfter(t, 8*day, job{ID: "killer"})
		stop := l.Start(worker.Config{MaxDeliveries: 3})
		time.Sleep(time.Until(due) - time.Hour)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		for range 3 {
			if ds, err := s.Queue("jobs").Receive(t.Context(), 10, time.Second); err != nil || len(ds) != 1 {
				t.Fatalf("got %d messages, %v", len(ds), err)
			}
			time.Sleep(time.Second)
		}
		l.Start(worker.Config{MaxDeliveries: 3})
		l.empty(t, time.Second)
		worldtest.Want(t, "handled", len(l.called()), 0)
		if p := l.onePoisoned(t); p.Reason != handlers.ReasonDeliveries || p.ID != "killer" {
			t.Errorf("poisoned: got %+v", p)
		}
	})
}

// Nothing of a message is judged before it is due: not its kind, and not whether it is claim-checked.
func TestKindIsJudgedWhenItIsDue(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, seldom(s), func(context.Context, job) error { return nil })
		l.Start(worker.Config{UnknownFor: time.Hour})
		due := time.Now().Add(20 * day)
		l.sendRaw(t, fmt.Sprintf(`{"specversion":"1.0","id":"new","source":"/else","type":"test.new.v9","due":%q,"data":{}}`, due.Format(time.RFC3339Nano)))
		time.Sleep(time.Until(due) - time.Second)
		worldtest.Want(t, "poisoned before it is due", len(l.Poisoned("jobs")), 0)
		l.empty(t, time.Hour)
		if p := l.onePoisoned(t); p.Reason != handlers.ReasonUnknownKind || p.First.Before(due) || p.Last.Sub(p.First) < time.Hour {
			t.Errorf("poisoned: got %+v", p)
		}
	})
}

// A worker that stops, or is paused, hands a message back until it is due, and not at once.
func TestStoppingWorkerKeepsTheDueTime(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		held := make(chan struct{})
		holding := storagetest.Intercept(seldom(s), func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if op.Name == "receive" {
				<-held
			}
			return err
		})
		l := newLab(t, holding, func(context.Context, job) error { return nil })
		due := l.sendJobsAfter(t, 8*day, job{})
		time.Sleep(storage.MaxDelay)
		stop := l.Start(worker.Config{})
		synctest.Wait()
		stopped := make(chan error)
		go func() { stopped <- stop() }()
		synctest.Wait()
		close(held) // the message comes while the worker stops
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "delayed", stats(t, s, "jobs").Delayed, 1)
		l.Start(worker.Config{})
		l.empty(t, time.Hour)
		if e := l.onTime(t, due).envelope; e.HandBacks != 0 || e.Hops == 0 {
			t.Errorf("got %+v; want hops alone", e)
		}
	})
}

// A handler may ask for any delay, and so may Config.RetryDelay.
func TestDelaysOfVerdictsBeyondTheEngine(t *testing.T) {
	t.Parallel()
	const long = 30 * day
	for name, verdict := range map[string]error{
		"later": handlers.Later(long, "not this month"),
		"retry": handlers.Retry(long, errors.New("no")),
		"error": errors.New("no"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				n := 0
				l := newLab(t, seldom(s), func(context.Context, job) error {
					if n++; n == 1 {
						return verdict
					}
					return nil
				})
				l.Start(worker.Config{MaxDeliveries: 2, MaxAttempts: 2, RetryDelay: func(int, string) time.Duration { return long }})
				l.sendJobs(t, job{Body: strings.Repeat("x", 100_000)})
				l.empty(t, 5*day)
				calls := l.called()
				worldtest.Want(t, "calls", len(calls), 2)
				if gap := calls[1].at.Sub(calls[0].at); gap < long || gap > long+poll {
					t.Errorf("tried again after %v; want %v", gap, long)
				}
				e := calls[1].envelope
				worldtest.Want(t, "attempts and hand-backs", e.Attempts+e.HandBacks, 1)
				worldtest.Want(t, "its age goes on", e.Born().Equal(calls[0].envelope.Born()), true)
				worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
			})
		})
	}
}

// A message in the poison queue that isn't due yet waits for its due time when it is sent back.
func TestRetryOfAPoisonedMessageThatIsNotDue(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, seldom(s), func(context.Context, job) error { return nil })
		due := time.Now().Add(20 * day)
		e := worldtest.Envelope("early", job{ID: "early"})
		e.Due, e.Hops = due, 7
		body, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		l.sendRaw(t, string(body))
		ds, err := s.Queue("jobs").Receive(t.Context(), 1, time.Minute)
		if err != nil || len(ds) != 1 {
			t.Fatalf("got %d messages, %v", len(ds), err)
		}
		err = poison.Put(t.Context(), s, &e, poison.Entry{Queue: "jobs", Reason: "a test", ID: e.ID, Kind: e.Kind, Body: body},
			func(context.Context) (storage.Claim, error) {
				return storage.Claim{Queue: "jobs", Receipt: ds[0].Receipt}, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.poison.Retry(t.Context(), l.onePoisoned(t).Key); err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "delayed", stats(t, s, "jobs").Delayed, 1)
		l.Start(worker.Config{MaxDeliveries: 2})
		l.empty(t, day)
		l.onTime(t, due)
	})
}

// Eight days are no problem. A time that is further away than ten years is refused, and the error says so.
func TestEightDaysAndTheYear9999(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, patient(s, poll), func(context.Context, job) error { return nil })
		l.Start(worker.Config{})
		due := time.Now().Add(8 * day)
		sender := worldtest.SenderOf[job](t, l.Channels)
		if err := sender.SendAt(t.Context(), due, job{}); err != nil {
			t.Fatal(err)
		}
		l.empty(t, time.Hour)
		if c := l.onTime(t, due); s.Rings() && c.at.Sub(due) > time.Second {
			t.Errorf("handled %v late, though the store rings", c.at.Sub(due))
		}
		err := sender.SendAt(t.Context(), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), job{})
		if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "at most ten years") {
			t.Errorf("got %v; want the limit named", err)
		}
		worldtest.Want(t, "queued", worldtest.Queued(t, s, "jobs"), 0)
	})
}
