package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// In these tests a worker has taken many messages while handlers were quick. Then they become slow.

const long = 20 * time.Second

func oneAtATime(log *worldtest.Log, queue string, most int) worker.Config {
	return worker.Config{Logger: slog.New(log), Queues: map[string]worker.QueueConfig{queue: {Concurrency: 1, MaxInHand: most}}}
}

// dialed is oneAtATime for a worker whose limits may change.
func dialed(log *worldtest.Log, queue string, d *dial) worker.Config {
	return worker.Config{Logger: slog.New(log), Queues: map[string]worker.QueueConfig{queue: {Concurrency: 1, Limiter: d.open}}}
}

// An event that a worker has in hand, behind slow handlers, is not missing: that worker hands it back.
func TestLawInOrderAnEventInAnotherWorkersHandIsNoGap(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	for _, patience := range []time.Duration{30 * time.Second, 15 * time.Minute} {
		for _, halt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, halt %v", patience, halt), func(t *testing.T) {
				virtually(t, func(t *testing.T, s *storage.Store) {
					cfg := handlers.TurnConfig{Halt: halt, Patience: patience}
					handle := func(_ context.Context, e Added) error {
						if e.To[0] == 'k' {
							time.Sleep(long)
						}
						return nil
					}
					l := newLane(t, s, nil, cfg, handle)
					for i := range 1000 {
						l.emit(t, fmt.Sprint("quick", i), 1, 0)
					}
					for i := range 100 {
						l.emit(t, fmt.Sprint("k", i), 1, 0)
					}
					l.emit(t, "a", 1, 0)
					d := newDial(worker.Limits{})
					l.Start(dialed(l.log, "audits", d))
					time.Sleep(time.Second)
					d.set(worker.Limits{MaxInHand: 1}) // it takes no others
					time.Sleep(time.Second)
					newLane(t, s, l.done, cfg, handle).Start(oneAtATime(l.log, "audits", 0))
					l.emit(t, "a", 2, 1)
					time.Sleep(2 * time.Hour)
					l.wantRuns(t, "two workers", "a", 1, 2)
					worldtest.Want(t, "halts", l.log.Count("ERROR a message halts its key"), 0)
					worldtest.Want(t, "passed", l.log.Count("WARN a message that should come first"), 0)
				})
			})
		}
	}
}

// A message that failed and came again is handed back, too, because the others of its key wait for it.
func TestLawOneAtATimeAFailedMessageInAnotherWorkersHandIsWaitedFor(t *testing.T) {
	parttest.InTurn(t)
	withAndWithoutHalt(t, func(t *testing.T, s *storage.Store, cfg handlers.TurnConfig) {
		failed := false
		handle := func(_ context.Context, e visit) error {
			switch {
			case e.Key[0] == 'k':
				time.Sleep(long)
			case e.Key == "a" && !failed:
				failed = true
				return handlers.Later(10*time.Second, "the service is away")
			}
			return nil
		}
		x := newStreet(t, s, nil, cfg, handle)
		x.send(t, visit{Key: "a", N: 1})
		for i := range 1000 {
			x.send(t, visit{Key: fmt.Sprint("quick", i)})
		}
		d := newDial(worker.Limits{})
		x.Start(dialed(x.log, "visits", d))
		time.Sleep(5 * time.Second)
		for i := range 100 {
			x.send(t, visit{Key: fmt.Sprint("k", i)})
		}
		time.Sleep(20 * time.Second)
		d.set(worker.Limits{MaxInHand: 1}) // it takes no others
		time.Sleep(time.Second)
		newStreet(t, s, x, cfg, handle).Start(oneAtATime(x.log, "visits", 0))
		x.send(t, visit{Key: "a", N: 2})
		time.Sleep(2 * time.Hour)
		x.wantRuns(t, "a", 1, 1, 2)
		wantNoneMissed(t, x.log)
	})
}

// One worker alone runs the messages of a key in the order of their arrival, even where it holds some of them for long
// and others are in the queue.
func TestLawOneAtATimeOneWorkerKeepsTheOrderWhenHandlersBecomeSlow(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		x := newStreet(t, s, nil, handlers.TurnConfig{}, func(_ context.Context, e visit) error {
			if e.Key[0] == 'k' {
				time.Sleep(long)
			}
			return nil
		})
		for i := range 1000 {
			x.send(t, visit{Key: fmt.Sprint("quick", i)})
		}
		var want []int
		for i := range 40 {
			x.send(t, visit{Key: fmt.Sprint("k", i)})
		}
		for i := range 90 {
			x.send(t, visit{Key: "a", N: i})
			want = append(want, i)
		}
		x.Start(oneAtATime(x.log, "visits", 64))
		time.Sleep(2 * time.Hour)
		x.wantRuns(t, "a", want...)
	})
}

// Messages that wait behind slow handlers go to another worker, at no attempt, and each only a few times.
func TestLawSlowHandlersHoldNoMessagesThatAnotherWorkerCouldRun(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		const quick, many = 1000, 200
		var calls storagetest.Calls
		log := worldtest.NewLog()
		handle := func(_ context.Context, j job) error {
			if j.Name == "slow" {
				time.Sleep(long)
			}
			return nil
		}
		a := newLab(t, storagetest.Intercept(s, calls.Hook), handle)
		for range quick {
			a.sendJobs(t, job{Name: "quick"})
		}
		for range many {
			a.sendJobs(t, job{Name: "slow"})
		}
		a.Start(oneAtATime(log, "jobs", 0))
		time.Sleep(5 * time.Second)
		b := newLab(t, storagetest.Intercept(s, calls.Hook), handle)
		b.Start(oneAtATime(log, "jobs", 0))
		began := time.Now()
		a.empty(t, long)
		took, alone := time.Since(began), many*long
		t.Logf("%d of %d slow messages ran in the other worker; it took %v, and %d rewrites", len(b.called()), many, took, calls.Count("rewrite"))
		if took > alone/2+5*time.Minute {
			t.Errorf("two workers took %v; one takes %v", took, alone)
		}
		if n := calls.Count("rewrite"); n < many/2 || n > many*3/2 {
			t.Errorf("%d rewrites for %d messages; want about one for each", n, many)
		}
		for _, c := range append(a.called(), b.called()...) {
			if c.envelope.Attempts != 0 {
				t.Fatalf("a message has spent %d attempts", c.envelope.Attempts)
			}
		}
	})
}

// Where handlers always take longer than messages may wait in hand, few messages come and go.
func TestLawLongHandlersHandBackFewMessages(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		const many = 40
		var calls storagetest.Calls
		l := newLab(t, storagetest.Intercept(s, calls.Hook), func(context.Context, job) error { time.Sleep(15 * long); return nil })
		for range many {
			l.sendJobs(t, job{})
		}
		l.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 4}}})
		began := time.Now()
		l.empty(t, long)
		t.Logf("%d messages of %v on 4 goroutines took %v and %d rewrites", many, 15*long, time.Since(began), calls.Count("rewrite"))
		if took := time.Since(began); took > many/4*15*long+5*time.Minute {
			t.Errorf("it took %v", took)
		}
		if n := calls.Count("rewrite"); n > many {
			t.Errorf("%d rewrites for %d messages; want one for each at most", n, many)
		}
	})
}
