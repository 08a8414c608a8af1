package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

var (
	errDown    = syscall.ECONNREFUSED // nothing was sent
	errReset   = syscall.ECONNRESET   // the outcome is unknown
	errInvalid = errors.New("invalid")
)

// handling is the context of a handler of the message with this ID, in its n-th delivery.
func handling(t testing.TB, id string, n int) context.Context {
	return handlingUnder(t.Context(), id, n)
}

func handlingUnder(ctx context.Context, id string, n int) context.Context {
	e := channel.Envelope{ID: id, Kind: "test.job.v1", Time: time.Now()}
	return wire.WithDelivery(ctx, &e, "jobs", nil, n, nil)
}

// ends is a call that ends with an error.
func ends(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// service is an outside service that counts its calls.
type service struct {
	mu       sync.Mutex
	down     error // what each call fails with
	calls    int
	whenDown int
	most     int // calls at a time
	running  int
	took     time.Duration
}

func (s *service) call(ctx context.Context) error {
	s.mu.Lock()
	s.calls++
	s.running++
	s.most = max(s.most, s.running)
	down := s.down
	if down != nil {
		s.whenDown++
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	if err := worldtest.Pause(ctx, s.took); err != nil {
		return err
	}
	return down
}

func (s *service) set(down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.most = down, 0
}

// counted returns how many calls there were, how many of them while it was down, and how many at a time.
func (s *service) counted() (calls, whenDown, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.whenDown, s.most
}

// once lets the handlers of a guard repeat no call, so that each delivery makes one call.
func once(g *guard.Guard) *guard.Guard { return guard.WithInPlace(g, 0) }

// trip opens a breaker with the default settings, by twenty messages that fail.
func trip(t testing.TB, g *guard.Guard) {
	t.Helper()
	for i := range 20 {
		_ = g.Do(handling(t, worldtest.IDAt(time.Now(), i), 1), ends(errDown))
	}
	wantOpen(t, g, true)
}

// wantOpen fails the test unless the limiter of a guard is paused, or isn't.
func wantOpen(t testing.TB, g *guard.Guard, want bool) {
	t.Helper()
	limiter, err := g.Limiter(t.Context(), worker.Consumer{})
	if err != nil {
		t.Fatal(err)
	}
	limits, _ := limiter.Now()
	worldtest.Want(t, "paused", limits.Pause, want)
}

// limits returns the limits that are in force.
func limits(t testing.TB, g *guard.Guard) worker.Limits {
	t.Helper()
	limiter, err := g.Limiter(t.Context(), worker.Consumer{})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := limiter.Now()
	return l
}

// untilDue waits until a probe is due.
func untilDue(t testing.TB, g *guard.Guard) {
	t.Helper()
	for limits(t, g).Pause {
		limiter, _ := g.Limiter(t.Context(), worker.Consumer{})
		_, changed := limiter.Now()
		<-changed
	}
}

func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

type job struct{ N int }

func (job) Kind() channel.Kind { return "test.job.v1" }

// lab is a queue of jobs, each of which makes one call of a service.
type lab struct {
	*worldtest.World
	service *service
	log     *worldtest.Log
	done    atomic.Int64

	mu         sync.Mutex
	attempts   map[int]int // of the jobs that are done, by their number, under mu
	deliveries int         // of them all, under mu
}

// newLab starts a worker. A job for which bad is not nil makes no call of the service, and ends with that error.
func newLab(t *testing.T, g func(*slog.Logger) *guard.Guard, bad func(job) error) *lab {
	t.Helper()
	l := &lab{service: &service{took: 10 * time.Millisecond}, log: worldtest.NewLog(), attempts: map[int]int{}}
	l.World = worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, channel.Command[job]("jobs"))
	smtp := g(slog.New(l.log))
	handlers.React(l.Registry, "jobs", func(ctx context.Context, j job) error {
		err := smtp.Do(ctx, func(ctx context.Context) error {
			if err := bad(j); err != nil {
				return err
			}
			return l.service.call(ctx)
		})
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.done.Add(1)
			l.attempts[j.N], _ = handlers.Attempt(ctx)
			l.deliveries += handlers.Deliveries(ctx)
		}
		return err
	})
	l.Start(worker.Config{Logger: slog.New(l.log), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: smtp.Limiter}}})
	return l
}

func good(job) error { return nil }
