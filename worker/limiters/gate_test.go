package limiters_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

const gateName = "start-order-processing"

// A gateLab is a queue of jobs behind a gate, and a worker. Each handler runs until done has an element for it.
type gateLab struct {
	*worldtest.World
	gate    *gate.Gate // as an operator sees it
	log     *worldtest.Log
	began   atomic.Int64 // handlers
	running atomic.Int64
	done    chan struct{}
	stop    func() error
}

// newGateLab starts a worker whose limiter uses another connection to the store than the worker, if there is one.
func newGateLab(t *testing.T, s *storage.Store, conn *storage.Store) *gateLab {
	t.Helper()
	l := &gateLab{gate: gate.At(s, gateName), log: worldtest.NewLog(), done: make(chan struct{}, 1000)}
	l.World = worldtest.NewBare(t, s, handlers.Config{Timeout: 24 * time.Hour}, channel.Command[job]("jobs"))
	handlers.React(l.Registry, "jobs", func(ctx context.Context, _ job) error {
		l.began.Add(1)
		l.running.Add(1)
		defer l.running.Add(-1)
		select {
		case <-l.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	open := func(ctx context.Context, c worker.Consumer) (worker.Limiter, error) {
		c.Store = conn
		return limiters.Gate(gateName)(ctx, c)
	}
	l.stop = l.Start(worker.Config{Logger: slog.New(l.log), Queues: map[string]worker.QueueConfig{"jobs": {Concurrency: 2, MaxInHand: 10, Limiter: open}}})
	return l
}

func (l *gateLab) open(t *testing.T) {
	t.Helper()
	if err := l.gate.Open(t.Context(), gate.Note{By: "ada", Why: "results are in"}); err != nil {
		t.Fatal(err)
	}
}

func (l *gateLab) shut(t *testing.T) {
	t.Helper()
	if err := l.gate.Close(t.Context(), gate.Note{By: "ada"}); err != nil {
		t.Fatal(err)
	}
}

// wantRunning fails the test unless so many handlers run after d.
func (l *gateLab) wantRunning(t *testing.T, when string, d time.Duration, want int) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	worldtest.Want(t, "running "+when, int(l.running.Load()), want)
}

// A queue is consumed while its gate is open. When the gate is closed, messages that run are finished, and those that
// wait are handed back.
func TestAQueueBehindAGate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		l := newGateLab(t, s, s)
		worldtest.Send(l.World, make([]job, 20)...)
		l.wantRunning(t, "before the opening", time.Hour, 0)
		if st, err := s.Queue("jobs").Stats(t.Context()); err != nil || st.Ready != 20 || st.InFlight != 0 {
			t.Errorf("behind a closed gate: %+v, %v", st, err)
		}
		l.open(t)
		l.wantRunning(t, "after the opening", 100*time.Millisecond, 2)
		l.shut(t)
		l.wantRunning(t, "when it is closed again", time.Hour, 2)
		l.done <- struct{}{}
		l.done <- struct{}{}
		l.wantRunning(t, "behind a closed gate", time.Hour, 0)
		worldtest.Want(t, "begun", int(l.began.Load()), 2)
		l.open(t)
		close(l.done)
		l.WaitUntilIdle()
		worldtest.Want(t, "begun in all", int(l.began.Load()), 20)
		worldtest.Want(t, "lines", l.log.Count("INFO the gate of a queue is open", "gate="+gateName, "by=ada", "why=results are in")*10+l.log.Count("INFO the gate of a queue is closed", "worker="), 22)
	})
}

// A worker that starts later finds the gate open, and one that stops lets go of it.
func TestAWorkerThatComesLater(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		if err := gate.At(s, gateName).Open(t.Context(), gate.Note{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		l := newGateLab(t, s, s)
		worldtest.Send(l.World, job{})
		l.wantRunning(t, "soon", 100*time.Millisecond, 1)
		close(l.done)
		l.WaitUntilIdle()
		began := time.Now()
		if err := l.stop(); err != nil || time.Since(began) > time.Second {
			t.Errorf("stopped with %v after %v", err, time.Since(began))
		}
		if heard, err := s.Publish(t.Context(), "gates", []byte(gateName), false); heard != 0 || err != nil {
			t.Errorf("%d still listen, %v", heard, err)
		}
	})
}

// Where nothing rings, an opening is seen within a poll, and a closing within twelve.
func TestWithoutRings(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		l := newGateLab(t, s, storagetest.Plain(s))
		worldtest.Send(l.World, make([]job, 20)...)
		l.wantRunning(t, "before the opening", time.Minute, 0)
		l.open(t)
		l.wantRunning(t, "after the opening", 3*time.Second, 2)
		l.shut(t)
		time.Sleep(31 * time.Second)
		close(l.done)
		l.wantRunning(t, "after the closing", time.Minute, 0)
		worldtest.Want(t, "begun", int(l.began.Load()), 2)
	})
}

// While the store can't be read, the queue stays as it was.
func TestAStoreThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		link.Cut()
		l := newGateLab(t, s, link.Store)
		worldtest.Send(l.World, make([]job, 20)...)
		l.open(t)
		l.wantRunning(t, "before the gate was read", time.Hour, 0)
		link.Restore()
		l.wantRunning(t, "when it is read", 3*time.Second, 2)
		link.Cut()
		l.done <- struct{}{}
		l.wantRunning(t, "when it can't be read again", time.Hour, 2)
		worldtest.Want(t, "begun", int(l.began.Load()), 3)
		close(l.done)
		l.WaitUntilIdle()
	})
}

// A blob that is no gate pauses the queue until somebody mends it.
func TestABlobThatIsNoGate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		l := newGateLab(t, s, s)
		l.open(t)
		time.Sleep(time.Minute)
		if _, err := s.Blobs("gates").Put(t.Context(), gateName, []byte("x"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		worldtest.Send(l.World, job{})
		l.wantRunning(t, "behind a blob that is no gate", time.Hour, 0)
		worldtest.Want(t, "lines", l.log.Count("ERROR the gate of a queue can't be used; the queue is paused", "not a gate"), 1)
		if err := s.Blobs("gates").Delete(t.Context(), gateName, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		l.open(t)
		l.wantRunning(t, "when it was mended", 31*time.Second, 1)
		worldtest.Want(t, "lines about an opening", l.log.Count("INFO the gate of a queue is open"), 2)
		close(l.done)
	})
}

// A worker whose gate has a bad name doesn't start.
func TestABadName(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.NewBare(t, s, handlers.Config{}, channel.Command[job]("jobs"))
		handlers.React(w.Registry, "jobs", func(context.Context, job) error { return nil })
		stop := w.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {Limiter: limiters.Gate("a\nb")}}})
		time.Sleep(time.Second)
		if err := stop(); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), `limiters: gate: `) {
			t.Errorf("the worker ended with %v", err)
		}
	})
}

// Leave gives up in time although the store hangs for good.
func TestGateLeavesWhileTheStoreHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		over := make(chan struct{})
		hanging := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, _ func() error) error {
			<-over
			return op.Fail(storage.ErrUnavailable)
		})
		limiter, err := limiters.Gate(gateName)(t.Context(), worker.Consumer{Store: hanging, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		worldtest.WantErr(t, limiter.Leave(ctx), context.DeadlineExceeded)
		close(over)
		if err := limiter.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The package's comment promises these costs.
func TestCost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		l := newGateLab(t, s, storagetest.Intercept(s, calls.Hook))
		for state, want := range map[string][2]int{"closed": {1560, 1640}, "open": {125, 145}} {
			if state == "open" {
				l.open(t)
			} else {
				l.shut(t)
			}
			time.Sleep(time.Minute)
			before := calls.Count()
			time.Sleep(time.Hour)
			if n := calls.Count() - before; n < want[0] || n > want[1] {
				t.Errorf("%s: %d calls an hour, want %v", state, n, want)
			}
		}
		if ops := fmt.Sprint(calls.Count("get blob")+calls.Count("subscribe"), calls.Count("subscribe")); ops != fmt.Sprint(calls.Count(), 1) {
			t.Errorf("%s of %d calls", ops, calls.Count())
		}
	})
}
