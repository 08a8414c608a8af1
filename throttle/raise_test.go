package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/throttle"
)

// follower is a level that follows a queue.
type follower struct {
	t     *testing.T
	level throttle.Level
	log   *worldtest.Log
	queue *storage.Queue
	calls storagetest.Calls
	fails atomic.Bool // looks at the queue
	begun time.Time
}

func follow(t *testing.T, test func(f *follower), bounds ...throttle.Bound) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &follower{t: t, log: worldtest.NewLog(), begun: time.Now()}
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(ctx context.Context, op storagetest.Op, do func() error) error {
			if f.fails.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return f.calls.Hook(ctx, op, do)
		})
		f.queue = s.Queue("orders")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- f.level.Follow(ctx, s, throttle.Raise{Bounds: bounds, Logger: slog.New(f.log)})
		}()
		synctest.Wait()
		test(f)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (f *follower) send(n int) {
	f.t.Helper()
	for range n {
		if err := f.queue.Send(f.t.Context(), []storage.Message{{Body: []byte("x")}}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *follower) take(n int) {
	f.t.Helper()
	for range n {
		got, err := f.queue.Receive(f.t.Context(), 1, time.Minute)
		if err == nil && len(got) != 1 {
			err = errors.New("the queue is empty")
		}
		if err == nil {
			err = f.queue.Delete(f.t.Context(), []storage.Receipt{got[0].Receipt})
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// after lets time pass, and wants a level then.
func (f *follower) after(d time.Duration, want int) {
	f.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	worldtest.Want(f.t, fmt.Sprintf("level %v after the beginning", time.Since(f.begun).Round(time.Second)), f.level.Now(), want)
}

// A queue above a bound raises the level with the next look. The level falls after a minute of calm, and a moment above
// the bound begins the minute anew.
func TestLawTheLevelFollowsTheQueue(t *testing.T) {
	follow(t, func(f *follower) {
		f.after(time.Second, 0)
		f.send(10)
		f.after(6*time.Second, 0) // it is at the bound, and not above
		f.send(1)
		f.after(6*time.Second, 1)
		f.send(10)
		f.after(6*time.Second, 3) // not one after the other
		f.take(21)
		f.after(50*time.Second, 3)
		f.send(21)
		f.after(6*time.Second, 3)
		f.take(9) // 12 are left: above the lower bound
		f.after(55*time.Second, 3)
		f.after(11*time.Second, 1)
		f.after(10*time.Minute, 1)
		f.take(12)
		f.after(55*time.Second, 1)
		f.after(11*time.Second, 0)
		worldtest.Want(f.t, "lines of rises", f.log.Count("WARN the level of what is left out follows the queues"), 2)
		worldtest.Want(f.t, "lines of falls", f.log.Count("INFO the level of what is left out follows the queues", "calm for 1m0s"), 2)
	}, throttle.Bound{Queue: "orders", Waiting: 10}, throttle.Bound{Queue: "orders", Waiting: 20, Level: 3})
}

// The age of the oldest message counts as well.
func TestLawTheLevelFollowsTheAge(t *testing.T) {
	follow(t, func(f *follower) {
		f.send(1)
		f.after(25*time.Second, 0)
		f.after(11*time.Second, 2)
		f.take(1)
		f.after(50*time.Second, 2)
		f.after(16*time.Second, 0)
	}, throttle.Bound{Queue: "orders", Age: 30 * time.Second, Level: 2})
}

// A level that somebody has set is the least, and is in force again when the queues are calm.
func TestLawTheLevelByHandIsTheFloor(t *testing.T) {
	follow(t, func(f *follower) {
		set := func(level int) {
			if err := f.level.Set(level); err != nil {
				f.t.Fatal(err)
			}
		}
		set(1)
		f.after(10*time.Minute, 1)
		f.send(20)
		f.after(6*time.Second, 2)
		set(3)
		f.after(0, 3)
		set(0)
		f.after(0, 2)
		set(1)
		f.take(20)
		f.after(66*time.Second, 1)
	}, throttle.Bound{Queue: "orders", Waiting: 10, Level: 2})
}

// A queue that can't be read leaves the level as it is, and that time is no calm.
func TestLawAQueueThatCannotBeReadIsNoCalm(t *testing.T) {
	follow(t, func(f *follower) {
		f.send(20)
		f.after(6*time.Second, 2)
		f.take(20)
		f.after(6*time.Second, 2)
		f.fails.Store(true)
		f.after(10*time.Minute, 2)
		f.fails.Store(false)
		f.after(50*time.Second, 2)
		f.after(21*time.Second, 0)
		worldtest.Want(f.t, "warnings", f.log.Count("can't be read"), 1)
	}, throttle.Bound{Queue: "orders", Waiting: 10, Level: 2})
}

// A level looks twelve times a minute at each queue, and not at all when it follows no more. Then the level by hand is
// in force.
func TestFollowCostsAndEnds(t *testing.T) {
	t.Parallel()
	var level throttle.Level
	bound := throttle.Bound{Queue: "orders", Waiting: 1}
	for what, r := range map[string]throttle.Raise{
		"no bound":              {},
		"no queue":              {Bounds: []throttle.Bound{{Waiting: 1}}},
		"nothing that is bound": {Bounds: []throttle.Bound{{Queue: "orders"}}},
		"a negative bound":      {Bounds: []throttle.Bound{{Queue: "orders", Age: -1}}},
		"no such level":         {Bounds: []throttle.Bound{{Queue: "orders", Waiting: 1, Level: 4}}},
		"looks too often":       {Bounds: []throttle.Bound{bound}, Every: time.Millisecond},
		"looks never":           {Bounds: []throttle.Bound{bound}, Every: math.MaxInt64, Calm: math.MaxInt64},
		"an endless calm":       {Bounds: []throttle.Bound{bound}, Calm: math.MaxInt64},
		"no calm":               {Bounds: []throttle.Bound{bound}, Calm: time.Second},
		"too many":              {Bounds: make([]throttle.Bound, 33)},
	} {
		if err := level.Follow(t.Context(), nil, r); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	t.Run("costs", func(t *testing.T) {
		followed := func(f *follower) {
			f.send(20)
			before := f.calls.Count("stats")
			f.after(10*time.Minute, 1)
			if n := f.calls.Count("stats") - before; n < 110 || n > 130 {
				f.t.Errorf("%d looks in ten minutes; want 120", n)
			}
		}
		follow(t, followed, bound, throttle.Bound{Queue: "orders", Age: time.Hour})
	})
}
