package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// A worker whose limiters can't be opened doesn't start. The limiters that were opened leave.
func TestLimiterThatCantBeOpened(t *testing.T) {
	for name, c := range map[string]struct {
		open worker.OpenLimiter
		want string
	}{
		"error": {func(context.Context, worker.Consumer) (worker.Limiter, error) { return nil, errors.New("no table") }, "limiter of queue jobs: no table"},
		"nil":   {func(context.Context, worker.Consumer) (worker.Limiter, error) { return nil, nil }, "got no limiter"},
		"none":  {nil, "a limiter is nil"},
		"panic": {func(context.Context, worker.Consumer) (worker.Limiter, error) { panic("boom") }, "panic: boom"},
		"blocks": {func(ctx context.Context, _ worker.Consumer) (worker.Limiter, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "no limiter after 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l, good := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nothing), newDial(worker.Limits{})
				w, err := worker.New(l.Registry, worker.Config{Queues: jobsLimiter(worker.Limiters(good.open, c.open))})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if err := w.Run(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				synctest.Wait()
				worldtest.Want(t, "calls of Leave", good.left, 1)
			})
		})
	}
}

// A limiter's context ends when the worker doesn't start, and the limiter isn't asked any more.
func TestLimitersOfAWorkerThatDoesNotStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		changes := make(chan struct{})
		close(changes)
		r := &rogue{leave: func() error { return nil }, now: func(int64) (worker.Limits, <-chan struct{}) { return worker.Limits{}, changes }}
		var of context.Context
		good := func(ctx context.Context, _ worker.Consumer) (worker.Limiter, error) { of = ctx; return r, nil }
		bad := func(context.Context, worker.Consumer) (worker.Limiter, error) {
			time.Sleep(time.Second)
			return nil, errors.New("no table")
		}
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nothing)
		w, err := worker.New(l.Registry, worker.Config{Queues: jobsLimiter(worker.Limiters(worker.Limiters(good), bad))})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(t.Context()); err == nil {
			t.Fatal("it ran")
		}
		if of.Err() == nil {
			t.Error("the limiter's context goes on")
		}
		synctest.Wait()
		before := r.calls.Load()
		time.Sleep(time.Minute)
		if n := r.calls.Load() - before; before == 0 || n != 0 {
			t.Errorf("asked %d times before the end and %d times after it; want some, and none", before, n)
		}
	})
}

// A limiter that is opened after the worker was stopped has time to leave. The log has the worker's end as it has its
// start.
func TestLimiterThatIsOpenedTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		left, log := make(chan error, 1), worldtest.NewLog()
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), nothing)
		stop := l.Start(worker.Config{Logger: slog.New(log), Queues: jobsLimiter(func(context.Context, worker.Consumer) (worker.Limiter, error) {
			time.Sleep(time.Second)
			return lateLimiter{left}, nil
		})})
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := <-left; err != nil {
			t.Errorf("Leave had a context that had ended: %v", err)
		}
		worldtest.Want(t, "lines of the start and the end", log.Count("worker starts")+log.Count("worker stopped"), 2)
	})
}

// lateLimiter is a limiter that notes the context it leaves with.
type lateLimiter struct{ left chan error }

func (lateLimiter) Now() (worker.Limits, <-chan struct{}) { return worker.Limits{}, nil }

func (l lateLimiter) Leave(ctx context.Context) error {
	l.left <- ctx.Err()
	return nil
}

// A limiter leaves when the worker takes no more messages, before those in hand are finished. A Leave that blocks holds
// up the stop for half a minute at most.
func TestLeaveComesBeforeTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := &runs{done: make(chan struct{})}
		l := newLab(t, worldtest.OpenStore(t, worldtest.Virtual), h.handle)
		var running atomic.Int64
		block := make(chan struct{})
		r := &rogue{now: func(int64) (worker.Limits, <-chan struct{}) { return worker.Limits{}, nil }, leave: func() error {
			running.Store(h.running.Load())
			<-block
			return nil
		}}
		stop := l.Start(worker.Config{Queues: jobsLimiter(func(context.Context, worker.Consumer) (worker.Limiter, error) { return r, nil })})
		l.sendJobs(t, job{})
		time.Sleep(time.Second)
		began := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		worldtest.Want(t, "running when it left", int(running.Load()), 1)
		if d := time.Since(began); d < 29*time.Second || d > 31*time.Second {
			t.Errorf("stopped after %v, want 30 s", d)
		}
		close(block)
	})
}
