package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// visit is a message that takes a turn.
type visit struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key"`
	N   int    `json:"n"`
}

func (visit) Kind() channel.Kind  { return "test.visit.v1" }
func (e visit) MessageID() string { return e.ID }

// street is a queue of visits, and what its handlers have done.
type street struct {
	world
	log *worldtest.Log

	mu      sync.Mutex
	running map[string]int   // by key
	most    map[string]int   // at the same time, by key
	begun   map[string][]int // by key
	fences  map[string]int64
}

// newStreet is one process, with a street of its own unless it shares another's.
func newStreet(t testing.TB, s *storage.Store, of *street, cfg handlers.TurnConfig, f func(ctx context.Context, e visit) error) *street {
	t.Helper()
	x := of
	if x == nil {
		x = &street{log: worldtest.NewLog(), running: map[string]int{}, most: map[string]int{}, begun: map[string][]int{}, fences: map[string]int64{}}
	}
	p := &street{log: x.log}
	p.World = worldtest.NewBare(t, s, handlers.Config{Logger: slog.New(x.log)}, channel.Command[visit]("visits"))
	handlers.OneAtATime(p.Registry, "visits", func(e visit) string { return e.Key }, func(ctx context.Context, e visit) error {
		x.mu.Lock()
		x.running[e.Key]++
		x.most[e.Key] = max(x.most[e.Key], x.running[e.Key])
		x.begun[e.Key] = append(x.begun[e.Key], e.N)
		if fence := handlers.Fence(ctx); fence < x.fences[e.Key] || fence == 0 {
			t.Errorf("key %q: fence %d after %d", e.Key, fence, x.fences[e.Key])
		} else {
			x.fences[e.Key] = fence
		}
		x.mu.Unlock()
		defer func() {
			x.mu.Lock()
			x.running[e.Key]--
			x.mu.Unlock()
		}()
		return f(ctx, e)
	})
	if cfg != (handlers.TurnConfig{}) {
		handlers.Turns(p.Registry, "visits", cfg)
	}
	if of == nil {
		x.World = p.World
		return x
	}
	return p
}

func (x *street) send(t testing.TB, all ...visit) {
	t.Helper()
	worldtest.Send(x.World, all...)
}

func (x *street) runs(key string) []int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.begun[key])
}

// wantAlone fails the test if two of one key ran at the same time.
func (x *street) wantAlone(t testing.TB) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, n := range x.most {
		if n != 1 {
			t.Errorf("key %q: %d ran at the same time", key, n)
		}
	}
}

func (x *street) wantRuns(t testing.TB, key string, want ...int) {
	t.Helper()
	if got := x.runs(key); !slices.Equal(got, want) {
		t.Errorf("key %q: got runs %v, want %v", key, got, want)
	}
}

// numbered are n visits of a key.
func numbered(key string, n int) (all []visit) {
	for i := range n {
		all = append(all, visit{Key: key, N: i + 1})
	}
	return all
}

// Messages of one key run one after the other, in the order of their arrival. Those of other keys run meanwhile.
func TestLawOneAtATimeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStreet(t, s, nil, handlers.TurnConfig{}, func(context.Context, visit) error { time.Sleep(time.Second); return nil })
		for _, key := range []string{"a", "b", "c"} {
			x.send(t, numbered(key, 20)...)
		}
		began := time.Now()
		x.Start(worker.Config{})
		x.empty(t, time.Second)
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("three keys took %v; want them at the same time", took)
		}
		x.wantAlone(t)
		for _, key := range []string{"a", "b", "c"} {
			if got := x.runs(key); !slices.IsSorted(got) || len(got) != 20 {
				t.Errorf("key %s: got runs %v", key, got)
			}
		}
	})
}

// Several workers never run two messages of a key at the same time. Nothing is lost, nothing is poisoned, and a message
// that waits spends no attempt.
func TestLawOneAtATimeOneAtATime(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		handle := func(ctx context.Context, e visit) error {
			if n, _ := handlers.Attempt(ctx); n != 1 {
				t.Errorf("%+v: attempt %d", e, n)
			}
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		x := newStreet(t, s, nil, handlers.TurnConfig{}, handle)
		for i := range 4 {
			p := x
			if i > 0 {
				p = newStreet(t, s, x, handlers.TurnConfig{}, handle)
			}
			p.Start(worker.Config{Name: fmt.Sprint("w", i)})
		}
		for i := range 30 {
			x.send(t, visit{Key: "a", N: i}, visit{Key: "b", N: i})
		}
		x.empty(t, time.Second)
		x.wantAlone(t)
		for _, key := range []string{"a", "b"} {
			got := x.runs(key)
			slices.Sort(got)
			if len(slices.Compact(got)) != 30 {
				t.Errorf("key %s: got runs %v", key, got)
			}
		}
		if n := len(x.Poisoned("visits")); n > 0 {
			t.Errorf("%d messages are poisoned", n)
		}
	})
}

// A message that failed keeps its place, and other keys go on.
func TestLawOneAtATimeAFailedMessageKeepsItsPlace(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStreet(t, s, nil, handlers.TurnConfig{}, func(ctx context.Context, e visit) error {
			switch n, _ := handlers.Attempt(ctx); {
			case e.Key == "a" && e.N == 1 && n < 4:
				return errors.New("not now")
			case e.Key == "a" && e.N == 2 && handlers.Deliveries(ctx) < 1000 && time.Now().Second()%2 == 0:
				return handlers.Later(1500*time.Millisecond, "an even second")
			}
			return nil
		})
		x.Start(worker.Config{})
		x.send(t, numbered("a", 5)...)
		x.send(t, numbered("b", 5)...)
		time.Sleep(time.Second)
		x.wantRuns(t, "b", 1, 2, 3, 4, 5)
		x.empty(t, time.Second)
		x.wantAlone(t)
		if got := x.runs("a"); !slices.IsSorted(got) || got[len(got)-1] != 5 {
			t.Errorf("got runs %v, want all of one before the next", got)
		}
	})
}

// A message that goes to the poison queue is skipped, and the next goes on. Sent back, it takes its turn.
func TestLawOneAtATimeSkips(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		closed := true
		x := newStreet(t, s, nil, handlers.TurnConfig{}, func(_ context.Context, e visit) error {
			switch {
			case e.N == 2 && closed:
				return handlers.Poison("closed", nil)
			case e.N == 4 && closed:
				return errors.New("always")
			}
			return nil
		})
		x.Start(worker.Config{})
		x.send(t, numbered("a", 5)...)
		x.empty(t, time.Second)
		x.wantRuns(t, "a", 1, 2, 3, 4, 4, 4, 4, 4, 5)
		if n := len(x.Poisoned("visits")); n != 2 {
			t.Errorf("%d messages are poisoned, want 2", n)
		}
		closed = false
		retryAll(t, x)
		x.empty(t, time.Second)
		if got := x.runs("a"); len(got) != 11 {
			t.Errorf("got runs %v", got)
		}
		x.wantAlone(t)
	})
}

func retryAll(t *testing.T, x *street) {
	t.Helper()
	for _, e := range x.Poisoned("visits") {
		if err := poison.At(x.Channels, "visits").Retry(t.Context(), e.Key); err != nil {
			t.Fatal(err)
		}
	}
}
