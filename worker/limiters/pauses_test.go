package limiters_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

// A pauseLab is a queue of jobs that can be paused, and a worker that consumes it. Its limiter may use another
// connection to the store than the worker.
type pauseLab struct {
	*worldtest.World
	operator *pause.Pauses
	log      *worldtest.Log
	metrics  *prometheus.Registry
	began    atomic.Int64  // handlers
	attempts atomic.Int64  // that were spent before
	done     chan struct{} // each handler runs until it gets an element
	conn     *storage.Store
}

func newPauseLab(t *testing.T, s *storage.Store, conn *storage.Store) *pauseLab {
	t.Helper()
	l := &pauseLab{log: worldtest.NewLog(), metrics: prometheus.NewRegistry(), done: make(chan struct{}), conn: conn}
	var err error
	if l.operator, err = pause.New(s, pause.Config{}); err != nil {
		t.Fatal(err)
	}
	l.World = worldtest.NewBare(t, s, handlers.Config{Timeout: 24 * time.Hour}, channel.Command[job]("jobs"))
	handlers.React(l.Registry, "jobs", func(ctx context.Context, _ job) error {
		e, _, _ := channel.Handled(ctx)
		l.attempts.Add(int64(e.Attempts))
		l.began.Add(1)
		select {
		case <-l.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return l
}

// start starts a worker.
func (l *pauseLab) start() (stop func() error) {
	byHand := limiters.Pauses(limiters.PausesConfig{Metrics: l.metrics})
	open := func(ctx context.Context, c worker.Consumer) (worker.Limiter, error) {
		c.Store = l.conn
		return byHand(ctx, c)
	}
	return l.Start(worker.Config{Logger: slog.New(l.log), Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 2, MaxInHand: 10, Limiter: open}}})
}

// hold pauses the queue of jobs; a length of 0 is without an end.
func (l *pauseLab) hold(t *testing.T, length time.Duration) {
	t.Helper()
	if err := l.operator.Pause(t.Context(), []string{"jobs"}, length, pause.Note{By: "ada", Why: "no mail server"}); err != nil {
		t.Fatal(err)
	}
}

func (l *pauseLab) resume(t *testing.T) {
	t.Helper()
	if err := l.operator.Resume(t.Context(), "jobs"); err != nil {
		t.Fatal(err)
	}
}

// wantBegun fails the test unless so many handlers have begun after d.
func (l *pauseLab) wantBegun(t *testing.T, when string, d time.Duration, want int64) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	worldtest.Want(t, "handlers that have begun "+when, l.began.Load(), want)
}

// A paused queue is not asked for messages. Messages that run when the pause begins are finished, and those that wait
// are handed back. Nothing is spent.
func TestLawAPausedQueueIsNotAsked(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		counted := storagetest.Intercept(s, calls.Hook)
		l := newPauseLab(t, counted, counted)
		l.start()
		worldtest.Send(l.World, make([]job, 20)...)
		l.wantBegun(t, "before", time.Minute, 2)
		l.hold(t, 0)
		time.Sleep(time.Minute)
		if st, err := s.Queue("jobs").Stats(t.Context()); err != nil || st.InFlight != 2 || st.Ready != 18 {
			t.Errorf("when the pause has begun: %+v, %v; want 2 that run, and 18 that others could have", st, err)
		}
		l.done <- struct{}{}
		l.done <- struct{}{}
		l.wantBegun(t, "when two have ended", time.Minute, 2)
		before, looks := calls.Count(), calls.Count("get blob")
		worldtest.Send(l.World, job{}, job{})
		l.wantBegun(t, "in an hour of the pause", time.Hour, 2)
		n, looks := calls.Count()-before, calls.Count("get blob")-looks
		if n != looks+1 || looks < 120 || looks > 150 { // 1: the sending
			t.Errorf("%d calls of the store in an hour, of these %d looks at the pauses; want looks alone, some 130", n-1, looks)
		}
		close(l.done)
		l.resume(t)
		time.Sleep(time.Minute)
		l.WaitUntilIdle()
		worldtest.Want(t, "handlers that have begun", l.began.Load(), 22)
		worldtest.Want(t, "attempts", l.attempts.Load(), 0)
		worldtest.Want(t, "lines", l.log.Count("INFO queue is paused by hand", "queue=jobs", "worker=", "by=ada why=no mail server")*10+l.log.Count("INFO queue is not paused by hand any more"), 11)
	})
}

// A worker that starts takes nothing off a queue that was paused before.
func TestLawAPauseHoldsOverRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		l := newPauseLab(t, s, s)
		close(l.done)
		worldtest.Send(l.World, job{})
		l.hold(t, 0)
		for range 3 {
			stop := l.start()
			l.wantBegun(t, "in a new worker", 10*time.Minute, 0)
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		l.start()
		l.resume(t)
		l.wantBegun(t, "when it is resumed", time.Second, 1)
	})
}

// A pause with a length ends by itself, while the worker runs and while none does.
func TestLawAPauseEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		l := newPauseLab(t, s, s)
		close(l.done)
		stop := l.start()
		time.Sleep(time.Minute)
		l.hold(t, time.Hour)
		time.Sleep(time.Second)
		worldtest.Send(l.World, job{})
		l.wantBegun(t, "before the end", time.Hour-2*time.Second, 0)
		worldtest.Want(t, "gauge", testutil.ToFloat64(gauge(t, l.metrics)), 1)
		l.wantBegun(t, "after it", 2*time.Second, 1)
		worldtest.Want(t, "gauge", testutil.ToFloat64(gauge(t, l.metrics)), 0)
		l.hold(t, time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		worldtest.Send(l.World, job{})
		l.start()
		l.wantBegun(t, "in a worker that starts after the end", time.Minute, 2)
	})
}

// gauge returns the gauge of the queue of jobs.
func gauge(t *testing.T, r *prometheus.Registry) prometheus.Gauge {
	t.Helper()
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millrace", Name: "paused", Help: "1 while the queue is paused by hand, else 0."}, []string{"queue"})
	there, ok := errors.AsType[prometheus.AlreadyRegisteredError](r.Register(vec))
	if !ok {
		t.Fatal("the gauge is not registered")
	}
	return there.ExistingCollector.(*prometheus.GaugeVec).WithLabelValues("jobs")
}

// While the pauses can't be read, the queue stays as it was. Before they could be read, nothing is taken off it.
func TestLawTheStoreAwayChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		link.Cut()
		l := newPauseLab(t, s, link.Store)
		close(l.done)
		l.start()
		worldtest.Send(l.World, job{})
		l.wantBegun(t, "before the pauses were read", time.Hour, 0)
		link.Restore()
		l.wantBegun(t, "when they are read", time.Minute, 1)
		link.Cut()
		l.hold(t, 0)
		worldtest.Send(l.World, job{})
		l.wantBegun(t, "while nobody can tell of the pause", time.Hour, 2)
		link.Restore()
		time.Sleep(time.Minute)
		link.Cut()
		l.resume(t)
		worldtest.Send(l.World, job{})
		l.wantBegun(t, "while nobody can tell of the end of the pause", time.Hour, 2)
		link.Restore()
		l.wantBegun(t, "when the store is back", time.Minute, 3)
		worldtest.Want(t, "lines about the store", l.log.Count("WARN can't read the pauses of queues"), 3)
	})
}

// A blob that is something else leaves a queue as it was. A worker that starts with it waits until an operator repairs
// it.
func TestLawAnUnreadableBlobChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		l := newPauseLab(t, s, s)
		close(l.done)
		stop := l.start()
		time.Sleep(time.Minute)
		if _, err := s.Blobs("pauses").Put(t.Context(), "queues", []byte(`{"pauses":["jobs"]}`), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		worldtest.Send(l.World, job{})
		l.wantBegun(t, "in a worker that has seen the pauses before", time.Minute, 1)
		if err := stop(); err != nil {
			t.Error(err)
		}
		worldtest.Send(l.World, job{})
		l.start()
		l.wantBegun(t, "in a worker that has not", time.Hour, 1)
		if err := l.operator.Repair(t.Context(), nil, 0, pause.Note{}); err != nil {
			t.Fatal(err)
		}
		l.wantBegun(t, "after a repair", time.Second, 2)
	})
}

// All queues of a process share one watch, which costs the same for any number of them. It ends with the last limiter,
// and begins again with the next one.
func TestOneWatchForAllQueues(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		counted := storagetest.Intercept(s, calls.Hook)
		operator, err := pause.New(s, pause.Config{})
		if err != nil {
			t.Fatal(err)
		}
		byHand := limiters.Pauses(limiters.PausesConfig{Logger: slog.New(slog.DiscardHandler)})
		for range 2 {
			var limiters []worker.Limiter
			for i := range 8 {
				limiter, err := byHand(t.Context(), worker.Consumer{Store: counted, Queue: fmt.Sprint("queue-", i), Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				limiters = append(limiters, limiter)
			}
			time.Sleep(time.Minute)
			before := calls.Count()
			time.Sleep(time.Hour)
			if n := calls.Count() - before; n < 120 || n > 150 {
				t.Errorf("%d calls in an hour, want some 130", n)
			}
			if err := operator.Pause(t.Context(), []string{"queue-3", "queue-5"}, time.Minute, pause.Note{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for i, limiter := range limiters {
				limits, _ := limiter.Now()
				worldtest.Want(t, fmt.Sprintf("pause of queue %d", i), limits.Pause, i == 3 || i == 5)
			}
			for i, limiter := range limiters {
				heard, err := s.Publish(t.Context(), "pauses", nil, false)
				if worldtest.Want(t, fmt.Sprintf("watches when %d limiters have left", i), heard, 1); err != nil {
					t.Error(err)
				}
				if err := limiter.Leave(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if heard, err := s.Publish(t.Context(), "pauses", nil, false); heard != 0 || err != nil {
				t.Errorf("%d still listen, %v", heard, err)
			}
		}
	})
}

// A limiter learns only what concerns its queue.
func TestOtherQueuesDoNotMatter(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		operator, err := pause.New(s, pause.Config{})
		if err != nil {
			t.Fatal(err)
		}
		limiter, err := limiters.Pauses(limiters.PausesConfig{})(t.Context(), worker.Consumer{Store: s, Queue: "jobs", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		limits, changed := limiter.Now()
		if err := operator.Pause(t.Context(), []string{"mails"}, 0, pause.Note{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-changed:
			t.Error("the pause of another queue is a change")
		default:
		}
		worldtest.Want(t, "pause", limits.Pause, false)
		if err := limiter.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A worker doesn't start if the metrics can't be registered, or without a store.
func TestAWorkerThatCannotBeginToWatch(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_paused", Help: "Another one."}))
	if _, err := limiters.Pauses(limiters.PausesConfig{Metrics: r})(t.Context(), worker.Consumer{}); err == nil {
		t.Error("it began without its metrics")
	}
	_, err := limiters.Pauses(limiters.PausesConfig{})(t.Context(), worker.Consumer{Queue: "jobs", Logger: slog.New(slog.DiscardHandler)})
	worldtest.WantErr(t, err, storage.ErrInvalid)
}

// Leave gives up in time although the store hangs for good.
func TestPausesLeaveWhileTheStoreHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		over := make(chan struct{})
		hanging := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, _ func() error) error {
			<-over
			return op.Fail(storage.ErrUnavailable)
		})
		limiter, err := limiters.Pauses(limiters.PausesConfig{})(t.Context(), worker.Consumer{Store: hanging, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		worldtest.WantErr(t, limiter.Leave(ctx), context.DeadlineExceeded)
		close(over)
	})
}
