package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

// A sharer is a worker's process: its handlers, and its link to the store, which can be cut.
type sharer struct {
	*lab
	link *storagetest.Link
	stop func() error
}

func newSharer(t *testing.T, s *storage.Store, name string, consumers int, handle func(ctx context.Context, j job) error) *sharer {
	t.Helper()
	x := &sharer{link: storagetest.NewLink(s)}
	x.lab = newLab(t, x.link.Store, handle)
	x.stop = x.Start(worker.Config{Name: name, Queues: activeJobs(consumers)})
	return x
}

// activeJobs lets n workers consume the jobs at a time.
func activeJobs(n int) map[string]worker.QueueConfig {
	return map[string]worker.QueueConfig{"jobs": {Limiter: limiters.Workers(n)}}
}

func nothing(context.Context, job) error { return nil }

// consumers returns which of some workers have handled a message since the last call.
func consumers(t *testing.T, all []*sharer, before []int) (who []int) {
	t.Helper()
	for i, x := range all {
		if n := len(x.called()); n > before[i] {
			who = append(who, i)
			before[i] = n
		}
	}
	return who
}

// As many workers consume a queue as limiters.Workers says. Others follow them when they stop, or die.
func TestSharedQueue(t *testing.T) {
	for _, most := range []int{1, 2} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				var all []*sharer
				for i := range 4 {
					all = append(all, newSharer(t, s, fmt.Sprintf("w%d", i), most, func(context.Context, job) error {
						time.Sleep(time.Second) // so that no worker takes all
						return nil
					}))
				}
				sender := newLab(t, s, nothing)
				before := make([]int, len(all))
				round := func(want int) []int {
					t.Helper()
					sender.sendJobs(t, make([]job, 200)...)
					sender.empty(t, time.Second)
					who := consumers(t, all, before)
					if len(who) != want {
						t.Fatalf("workers %v consume, want %d of them", who, want)
					}
					return who
				}
				time.Sleep(time.Minute)
				who := round(most)
				if err := all[who[0]].stop(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(12 * time.Second) // a beat
				next := round(most)
				dead := all[next[0]]
				dead.link.Cut()
				time.Sleep(time.Minute)
				last := round(most)
				for _, i := range last {
					if all[i] == dead || i == who[0] {
						t.Errorf("worker %d consumes, which has stopped or is dead", i)
					}
				}
				total := 0
				for _, n := range before {
					total += n
				}
				worldtest.Want(t, "runs of handlers", total, 600)
				dead.link.Restore()
			})
		})
	}
}

// A worker that leaves a queue to others finishes its running handlers, however long that takes. It may consume the
// queue again meanwhile.
func TestHandOver(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var cut atomic.Int64
		handle := func(ctx context.Context, j job) error {
			if j.Name != "long" {
				return nil
			}
			select {
			case <-time.After(10 * time.Minute):
			case <-ctx.Done():
				cut.Add(1)
			}
			return ctx.Err()
		}
		a := newSharer(t, s, "a", 1, handle)
		time.Sleep(time.Minute)
		a.sendJobs(t, job{Name: "long"})
		time.Sleep(time.Minute)
		b := preferred(t, s, handle)
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		n := len(a.called())
		a.sendJobs(t, job{Name: "short"})
		time.Sleep(time.Minute)
		worldtest.Want(t, "handled by the first, which still has a long one", len(a.called()), n+1)
		a.empty(t, time.Minute)
		worldtest.Want(t, "handlers that were cut off", int(cut.Load()), 0)
		worldtest.Want(t, "runs of the long handler", countOf(a, "long")+countOf(b, "long"), 1)
	})
}

// preferred starts workers until one takes the queue over.
func preferred(t *testing.T, s *storage.Store, handle func(ctx context.Context, j job) error) *sharer {
	t.Helper()
	for i := 0; ; i++ {
		y := newSharer(t, s, fmt.Sprintf("preferred%d", i), 1, handle)
		time.Sleep(30 * time.Second)
		y.sendJobs(t, job{Name: "whose?"})
		time.Sleep(40 * time.Second)
		if len(y.called()) > 0 {
			return y
		}
		if err := y.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// A worker that stops while it still handles messages from before another took over drains like any other.
func TestStopAfterHandOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		a := newSharer(t, s, "a", 1, func(ctx context.Context, j job) error {
			if j.Name == "long" {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		time.Sleep(time.Minute)
		a.sendJobs(t, job{Name: "long"})
		time.Sleep(time.Minute)
		b := preferred(t, s, nothing)
		began := time.Now()
		if err := a.stop(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d < 20*time.Second || d > 21*time.Second {
			t.Errorf("stopped after %v, want the drain timeout", d)
		}
		b.empty(t, time.Second)
		worldtest.Want(t, "attempts at the long one", len(a.called())+len(b.called()), countOf(a, "whose?")+countOf(b, "whose?")+2)
		worldtest.Want(t, "of them by the other", countOf(b, "long"), 1)
	})
}

func countOf(x *sharer, name string) (n int) {
	for _, c := range x.called() {
		if c.job.Name == name {
			n++
		}
	}
	return n
}

// A worker that can't receive, because its handlers hang or the store fails, doesn't keep others out.
func TestStuckWorker(t *testing.T) {
	for _, why := range []string{"handlers", "receive"} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				link, release := storagetest.NewLink(s), make(chan struct{})
				a := newLab(t, link.Store, func(context.Context, job) error { <-release; return nil })
				a.Start(worker.Config{Concurrency: 1, MaxInHand: 1, Queues: activeJobs(1)})
				time.Sleep(time.Minute)
				a.sendJobs(t, job{})
				time.Sleep(time.Minute)
				b := newSharer(t, s, "b", 1, nothing)
				if why == "receive" {
					link.Cut("receive")
					close(release)
				}
				a.sendJobs(t, job{}, job{}, job{})
				time.Sleep(3 * time.Minute)
				// Chance decides which of them is preferred. Either way the other handles the messages that a doesn't.
				if n := len(b.called()); n < 2 {
					t.Errorf("the other has handled %d of 3", n)
				}
				if why == "handlers" {
					close(release)
				}
				link.Restore()
				b.empty(t, time.Second)
			})
		})
	}
}

// Workers that know different kinds don't share: a message whose kind an old one doesn't know finds one that knows it.
func TestSharedQueueOfTwoVersions(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		for i := range 4 { // some of them would be preferred
			newSharer(t, s, fmt.Sprintf("old%d", i), 1, nothing)
		}
		newer := newBare(t, s, channel.Command[job]("jobs"), channel.Command[Added]("jobs"))
		handlers.React(newer.Registry, "jobs", nothing)
		var got atomic.Int64
		handlers.React(newer.Registry, "jobs", func(context.Context, Added) error { got.Add(1); return nil })
		newer.Start(worker.Config{Queues: activeJobs(1)})
		time.Sleep(time.Minute)
		var unknown []storage.Message // a single message may come to old workers each time
		for i := range 20 {
			unknown = append(unknown, storage.Message{Body: []byte(raw(fmt.Sprint(i), Added{}.Kind(), Added{}))})
		}
		if err := s.Queue("jobs").Send(t.Context(), unknown); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if got.Load() < 10 {
			t.Errorf("%d of %d were handled", got.Load(), len(unknown))
		}
	})
}

// A worker that stands by logs that.
func TestMetricsOfStandBy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		var all []*prometheus.Registry
		for range 3 {
			all = append(all, prometheus.NewRegistry())
			newLab(t, s, nothing).Start(worker.Config{Metrics: all[len(all)-1], Queues: activeJobs(1)})
		}
		time.Sleep(time.Minute)
		sum := 0.0
		for _, registry := range all {
			v, ok := gathered(t, registry)["millrace_consuming jobs"]
			if !ok {
				t.Error("one has no metric")
			}
			sum += v
		}
		worldtest.Want(t, "active", int(sum), 1)
	})
}
