package spool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Messages arrive in the order of their sends although each send of the store fails with a chance of a third, or of
// two thirds. None is set aside.
func TestLaw3OrderWhileTheStoreFlaps(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				r := rand.New(rand.NewPCG(seed, 7))
				failing := 1 + int(seed%2)
				w.channels = channelsOver(t, storagetest.Intercept(w.seen, func(_ context.Context, op storagetest.Op, do func() error) error {
					if strings.HasPrefix(op.Resource, "queue ") && op.Name == "send" && r.IntN(3) < failing {
						return op.Fail(storage.ErrUnavailable)
					}
					return do()
				}), routes(t))
				w.start(Config{}, nil)
				w.mood.Store(away)
				const all = 40
				w.keep(0, all)
				w.mood.Store(up)
				for range 10 {
					settle()
				}
				if got := w.arrived(worldtest.Accounts); len(got) != all || !slices.IsSorted(got) {
					t.Errorf("got %q; want %d in order", got, all)
				}
				worldtest.Want(t, "lines", w.log.Count("set aside"), 0)
			})
		})
	}
}

// Messages for which the store always seems to be away let another one past when they have failed ten times, and are
// set aside then. The others keep their order, but for those that went ahead.
func TestLaw3AMessageThatFailsTenTimesLetsOnePast(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var failed atomic.Int64
		w.channels = channelsOver(t, storagetest.Intercept(w.seen, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" { // only these are so large that their body is a blob
				failed.Add(1)
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), routes(t))
		w.start(Config{}, nil)
		w.mood.Store(away)
		const bad, good = 2, 20
		for n := range bad {
			if err := w.adds.Send(t.Context(), worldtest.Add{Key: fmt.Sprint("large", n), To: "a", Note: strings.Repeat("x", 100<<10)}); err != nil {
				t.Fatal(err)
			}
		}
		w.keep(0, good)
		w.mood.Store(up)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if w.spool.State().Refused > 0 {
				break
			}
			if n := worldtest.Queued(t, w.store, worldtest.Accounts); n > 0 {
				t.Fatalf("%d arrived before the first was set aside", n)
			}
		}
		if failed.Load() < 2*10 { // with others, and alone
			t.Errorf("the first was set aside after %d tries", failed.Load())
		}
		for range 10 {
			settle()
		}
		worldtest.Want(t, "refused", w.spool.State().Refused, bad)
		got := w.arrived(worldtest.Accounts)
		if len(got) < bad {
			t.Fatalf("got %q", got)
		}
		if rest := got[bad:]; len(got) != good || !slices.IsSorted(rest) {
			t.Errorf("got %q; want %d, all but %d in order", got, good, bad)
		}
	})
}

// These are messages to five queues.
type (
	toQueue1 struct{ note }
	toQueue2 struct{ note }
	toQueue3 struct{ note }
	toQueue4 struct{ note }
	toQueue5 struct{ note }
)

func (toQueue1) Kind() channel.Kind { return "test.to-queue-1.v1" }
func (toQueue2) Kind() channel.Kind { return "test.to-queue-2.v1" }
func (toQueue3) Kind() channel.Kind { return "test.to-queue-3.v1" }
func (toQueue4) Kind() channel.Kind { return "test.to-queue-4.v1" }
func (toQueue5) Kind() channel.Kind { return "test.to-queue-5.v1" }

func toQueues(t *testing.T) *channel.Routes {
	t.Helper()
	r, err := channel.NewRoutes(channel.Command[worldtest.Add](worldtest.Accounts), channel.Command[toQueue1]("queue-1"),
		channel.Command[toQueue2]("queue-2"), channel.Command[toQueue3]("queue-3"), channel.Command[toQueue4]("queue-4"), channel.Command[toQueue5]("queue-5"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Four queues that are away by themselves, and have the oldest messages, hold up no fifth one: neither while the
// program runs nor after its next start.
func TestLaw3QueuesThatAreAwayHoldUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.channels = channelsOver(t, storagetest.Intercept(w.seen, func(_ context.Context, op storagetest.Op, do func() error) error {
			if strings.HasPrefix(op.Resource, "queue queue-") && op.Resource != "queue queue-5" {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), toQueues(t))
		w.start(Config{}, nil)
		if err := w.spool.Channels().Send(t.Context(), toQueue1{}); err != nil {
			t.Fatal(err)
		}
		for _, m := range []channel.Message{toQueue2{}, toQueue3{}, toQueue4{}} {
			if err := w.spool.Channels().Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		settle()
		for n := range 10 {
			if n == 5 {
				if err := w.stop(); err != nil {
					t.Fatal(err)
				}
				w.start(Config{}, nil)
			}
			if err := w.spool.Channels().Send(t.Context(), toQueue5{}); err != nil {
				t.Fatal(err)
			}
			settle()
			worldtest.Want(t, "messages of the queue that works", len(w.arrived("queue-5")), 1)
			w.wantWaiting(4)
		}
	})
}

// While the store is away, the forwarder tries three queues at a time and then rests, however many have messages. Each
// queue gets its turn.
func TestLaw3AnOutageCostsThreeTriesAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		tries, at := map[string]int{}, map[time.Time]int{}
		w.channels = channelsOver(t, storagetest.Intercept(w.seen, func(_ context.Context, op storagetest.Op, do func() error) error {
			mu.Lock()
			tries[op.Resource]++
			at[time.Now()]++
			mu.Unlock()
			return do()
		}), toQueues(t))
		w.mood.Store(away)
		w.start(Config{}, nil)
		for _, m := range []channel.Message{toQueue1{}, toQueue2{}, toQueue3{}, toQueue4{}, toQueue5{}} {
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := w.spool.Channels().Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		clear(tries)
		clear(at)
		mu.Unlock()
		for range 10 {
			settle()
		}
		mu.Lock()
		defer mu.Unlock()
		for when, n := range at {
			if n != mostLanes {
				t.Errorf("%d tries at %v, want %d", n, when, mostLanes)
			}
		}
		least, most := len(at)*mostLanes, 0
		for _, n := range tries {
			least, most = min(least, n), max(most, n)
		}
		if len(tries) != 5 || most-least > 1 {
			t.Errorf("got tries %v, want the same number for each queue", tries)
		}
	})
}
