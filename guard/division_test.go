package guard_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

type chore struct{ N int }

func (chore) Kind() channel.Kind { return "test.chore.v1" }

type errand struct{ N int }

func (errand) Kind() channel.Kind { return "test.errand.v1" }

// ways are several queues of one process, whose handlers all call one service.
type ways struct {
	*worldtest.World
	t     *testing.T
	store *storage.Store
	guard *guard.Guard
	took  time.Duration // of a call
	down  atomic.Bool   // the service

	jobs, chores, errands, returned atomic.Int64 // done, and deliveries beyond the first of those
}

// newWays starts a worker, or one for each queue.
func newWays(t *testing.T, s *storage.Store, cfg guard.Config, took time.Duration, apart bool) *ways {
	t.Helper()
	cfg.Logger = quietLogger()
	w := &ways{t: t, store: s, guard: guard.New("smtp", cfg), took: took}
	world := func() *worldtest.World {
		return worldtest.NewBare(t, s, handlers.Config{}, channel.Command[job]("jobs"), channel.Command[chore]("chores"), channel.Command[errand]("errands"))
	}
	w.World = world()
	consumed := map[string]func(*handlers.Registry){
		"jobs": func(h *handlers.Registry) {
			handlers.React(h, "jobs", func(ctx context.Context, _ job) error { return w.call(ctx, &w.jobs) })
		},
		"chores": func(h *handlers.Registry) {
			handlers.React(h, "chores", func(ctx context.Context, _ chore) error { return w.call(ctx, &w.chores) })
		},
		"errands": func(h *handlers.Registry) {
			handlers.React(h, "errands", func(ctx context.Context, _ errand) error { return w.call(ctx, &w.errands) })
		},
	}
	var stops []func() error
	start := func(at *worldtest.World, queues map[string]worker.QueueConfig) {
		stops = append(stops, at.Start(worker.Config{Logger: slog.New(slog.DiscardHandler), Queues: queues}))
	}
	t.Cleanup(func() {
		for _, stop := range stops {
			_ = stop()
		}
		time.Sleep(time.Minute) // calls that were under way may have asked for a share again
	})
	all := map[string]worker.QueueConfig{}
	for name, register := range consumed {
		all[name] = worker.QueueConfig{Concurrency: 8, Limiter: w.guard.Limiter}
		if !apart {
			register(w.Registry)
			continue
		}
		at := world()
		register(at.Registry)
		start(at, map[string]worker.QueueConfig{name: all[name]})
	}
	if !apart {
		start(w.World, all)
	}
	return w
}

func (w *ways) call(ctx context.Context, done *atomic.Int64) error {
	err := w.guard.Do(ctx, func(ctx context.Context) error {
		if err := worldtest.Pause(ctx, w.took); err != nil || !w.down.Load() {
			return err
		}
		return errDown
	})
	if err == nil {
		done.Add(1)
		w.returned.Add(int64(handlers.Deliveries(ctx) - 1))
	}
	return err
}

// inHand returns how many messages of all queues are in hand.
func (w *ways) inHand() (n int) {
	w.t.Helper()
	for _, queue := range []string{"jobs", "chores", "errands"} {
		st, err := w.store.Queue(queue).Stats(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		n += int(st.InFlight)
	}
	return n
}

// most lets time pass, and returns the most messages in hand at any of many moments.
func (w *ways) most(d time.Duration) (n int) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(73 * time.Millisecond) {
		n = max(n, w.inHand())
	}
	return n
}

// Three queues with a backlog have one guard. Together they never hold more messages than the guard lets run, each has
// its part, nothing is fetched in vain, and the slots are used: in one worker, and in one worker for each queue.
func TestLaw10QueuesDivideTheRoom(t *testing.T) {
	for apart, all := range map[bool][]int{false: {1, 4, 10}, true: {2}} {
		for _, slots := range all {
			t.Run(fmt.Sprintf("%d slots, workers apart %v", slots, apart), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					w := newWays(t, worldtest.OpenStore(t, worldtest.Virtual), guard.Config{Slots: slots}, 500*time.Millisecond, apart)
					worldtest.Send(w.World, make([]job, 400)...)
					worldtest.Send(w.World, make([]chore, 400)...)
					worldtest.Send(w.World, make([]errand, 400)...)
					time.Sleep(5 * time.Second) // the process has joined
					before := [3]int64{w.jobs.Load(), w.chores.Load(), w.errands.Load()}
					const seconds = 45
					worldtest.Want(t, "messages in hand", w.most(seconds*time.Second), slots)
					all, fair := int64(0), int64(2*seconds*slots/3)
					for i, n := range [3]int64{w.jobs.Load(), w.chores.Load(), w.errands.Load()} {
						n -= before[i]
						all += n
						if n < fair/2 {
							t.Errorf("queue %d: %d done in %d seconds, its part is %d", i, n, seconds, fair)
						}
					}
					if want := int64(2 * seconds * slots); all < want*9/10 {
						t.Errorf("%d done in %d seconds, want %d", all, seconds, want)
					}
					if n := w.returned.Load(); n > 5 { // while it joins
						t.Errorf("%d were fetched in vain", n)
					}
				})
			})
		}
	}
}

// One queue has a backlog, and the others none: it has the room, but for a part. A message of another queue is done
// soon all the same.
func TestLaw10IdleQueuesHoldNoRoom(t *testing.T) {
	for slots, least := range map[int]float64{1: 0.7, 4: 0.74, 12: 0.8} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWays(t, worldtest.OpenStore(t, worldtest.Virtual), guard.Config{Slots: slots}, 200*time.Millisecond, false)
				worldtest.Send(w.World, make([]job, 2000)...)
				time.Sleep(5 * time.Second)
				before := w.jobs.Load()
				worldtest.Want(t, "messages in hand", w.most(10*time.Second) <= slots, true)
				if n, all := w.jobs.Load()-before, float64(min(8, slots)*5*10); float64(n) < least*all {
					t.Errorf("%d done in 10 seconds, want %v of %v", n, least, all)
				}
				for range 5 {
					worldtest.Send(w.World, chore{})
					sent, n := time.Now(), w.chores.Load()
					for w.chores.Load() == n {
						time.Sleep(10 * time.Millisecond)
						if time.Since(sent) > 3*time.Second {
							t.Fatal("a message of a queue that was idle waits for more than 3 seconds")
						}
					}
					time.Sleep(time.Second)
				}
				worldtest.Want(t, "messages of the queue that was idle, fetched in vain", w.returned.Load() <= 5, true)
			})
		})
	}
}

// A rate is divided as slots are: queues hold hardly more messages than get a permit in time, and use it.
func TestLaw10QueuesDivideTheRate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWays(t, worldtest.OpenStore(t, worldtest.Virtual), guard.Config{Rate: guard.PerSecond(20)}, 10*time.Millisecond, false)
		worldtest.Send(w.World, make([]job, 600)...)
		worldtest.Send(w.World, make([]chore, 600)...)
		time.Sleep(5 * time.Second)
		before := w.jobs.Load() + w.chores.Load()
		if n := w.most(20 * time.Second); n > 9 { // a bucket of 4, and 5 in a quarter of a second
			t.Errorf("%d messages in hand", n)
		}
		if n := w.jobs.Load() + w.chores.Load() - before; n < 360 || n > 405 {
			t.Errorf("%d done in 20 seconds, limit 400", n)
		}
		if j, c := w.jobs.Load(), w.chores.Load(); j < c/2 || c < j/2 {
			t.Errorf("%d jobs and %d chores are done", j, c)
		}
		if n := w.returned.Load(); n > 20 {
			t.Errorf("%d were fetched in vain", n)
		}
	})
}

// When a service is back, the queues take one message for the probe, and then as many as the ramp lets through.
func TestLaw10QueuesDivideTheRamp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWays(t, worldtest.OpenStore(t, worldtest.Virtual), guard.Config{Probe: guard.Probe{Most: time.Second}}, 2*time.Second, false)
		w.down.Store(true)
		worldtest.Send(w.World, make([]job, 100)...)
		worldtest.Send(w.World, make([]chore, 100)...)
		for !w.guard.Open() {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if n := w.most(20 * time.Second); n > 1 {
			t.Errorf("%d messages in hand for the probe", n)
		}
		w.down.Store(false)
		for w.guard.Open() {
			time.Sleep(10 * time.Millisecond)
		}
		if n := w.most(1900 * time.Millisecond); n > 2 {
			t.Errorf("%d messages in hand in the first step of the ramp", n)
		}
		time.Sleep(5 * time.Minute)
		if j, c := w.jobs.Load(), w.chores.Load(); j != 100 || c != 100 {
			t.Errorf("%d jobs and %d chores are done, want 100 of each", j, c)
		}
	})
}

// Messages come to three queues in bursts, and calls take any time. The queues never hold more messages than the guard
// lets run, or one each, and all are done.
func TestLaw10AnyBursts(t *testing.T) {
	for seed := range storagetest.Seeds(t, 1, 3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 10))
				slots, took := 1+r.IntN(8), time.Duration(20+r.IntN(1500))*time.Millisecond
				w := newWays(t, worldtest.OpenStore(t, worldtest.Virtual), guard.Config{Slots: slots}, took, r.IntN(2) == 0)
				sent := [3]int64{}
				for range 20 {
					n := 1 + r.IntN(1+slots*4)
					switch which := r.IntN(3); which {
					case 0:
						worldtest.Send(w.World, make([]job, n)...)
						sent[which] += int64(n)
					case 1:
						worldtest.Send(w.World, make([]chore, n)...)
						sent[which] += int64(n)
					case 2:
						worldtest.Send(w.World, make([]errand, n)...)
						sent[which] += int64(n)
					}
					if n := w.most(time.Duration(r.IntN(4000)) * time.Millisecond); n > max(slots, 3) {
						t.Errorf("%d messages in hand, and %d slots", n, slots)
					}
				}
				time.Sleep(5 * time.Minute)
				if done := [3]int64{w.jobs.Load(), w.chores.Load(), w.errands.Load()}; done != sent {
					t.Errorf("done %v of %v with %d slots, calls of %v", done, sent, slots, took)
				}
			})
		})
	}
}

// Idle queues of one guard cost as many requests as without limits: nothing goes round.
func TestLaw5IdleQueuesOfAGuardCostNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		requests := func(cfg guard.Config) int {
			var calls storagetest.Calls
			w := newWays(t, storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook), cfg, 10*time.Millisecond, false)
			worldtest.Send(w.World, make([]job, 100)...)
			time.Sleep(2 * time.Minute)
			before := calls.Count()
			time.Sleep(time.Hour)
			worldtest.Want(t, "jobs that are done", w.jobs.Load(), 100)
			return calls.Count() - before
		}
		limited, plain := requests(guard.Config{Rate: 1000, Slots: 2}), requests(guard.Config{})
		if d := limited - plain; d < -plain/10 || d > plain/10 { // looks are spread by chance
			t.Errorf("%d requests in an hour with limits, %d without", limited, plain)
		}
	})
}
