package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// peak counts what runs, and how much ran at a time at most.
type peak struct{ now, most, all atomic.Int64 }

func (p *peak) run(d time.Duration) {
	n := p.now.Add(1)
	for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
	}
	time.Sleep(d)
	p.now.Add(-1)
	p.all.Add(1)
}

// Each queue of a worker has its own limits, and those of the Config where it has none.
func TestQueuesHaveTheirOwnLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newBare(t, worldtest.OpenStore(t, worldtest.Virtual), channel.Command[job]("slow"), channel.Command[Added]("fast"))
		var slow, fast peak
		var tries atomic.Int64
		handlers.React(w.Registry, "slow", func(context.Context, job) error { slow.run(time.Second); return nil })
		handlers.React(w.Registry, "fast", func(_ context.Context, e Added) error {
			if fast.run(time.Millisecond); e.Amount < 0 {
				tries.Add(1)
				return context.Canceled
			}
			return nil
		})
		w.Start(worker.Config{Concurrency: 7, MaxAttempts: 9, RetryDelay: func(int, string) time.Duration { return time.Second }, Queues: map[string]worker.QueueConfig{
			"slow": {Concurrency: 50},
			"fast": {MaxAttempts: 2},
		}})
		worldtest.Send(w.World, make([]job, 200)...)
		worldtest.Send(w.World, append(make([]Added, 200), Added{Amount: -1})...)
		w.empty(t, time.Second)
		worldtest.Want(t, "slow ones at a time", int(slow.most.Load()), 50)
		worldtest.Want(t, "fast ones at a time", int(fast.most.Load()), 7)
		worldtest.Want(t, "attempts at a fast one that fails", int(tries.Load()), 2)
	})
}

// A queue may have delays of its own between attempts. A queue without them takes the worker's.
func TestQueuesHaveTheirOwnDelays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newBare(t, worldtest.OpenStore(t, worldtest.Virtual), channel.Command[job]("slow"), channel.Command[Added]("fast"))
		var slow, fast []time.Time
		handlers.React(w.Registry, "slow", func(context.Context, job) error { slow = append(slow, time.Now()); return context.Canceled })
		handlers.React(w.Registry, "fast", func(context.Context, Added) error { fast = append(fast, time.Now()); return context.Canceled })
		after := func(d time.Duration) func(int, string) time.Duration {
			return func(failed int, _ string) time.Duration { return d * time.Duration(failed) }
		}
		w.Start(worker.Config{MaxAttempts: 3, RetryDelay: after(time.Minute), Queues: map[string]worker.QueueConfig{"fast": {RetryDelay: after(time.Second)}}})
		worldtest.Send(w.World, job{})
		worldtest.Send(w.World, Added{})
		w.empty(t, time.Second)
		for name, c := range map[string]struct {
			calls []time.Time
			delay time.Duration
		}{"slow": {slow, time.Minute}, "fast": {fast, time.Second}} {
			if len(c.calls) != 3 {
				t.Fatalf("%s: got %d calls, want 3", name, len(c.calls))
			}
			for i := 1; i < 3; i++ {
				if gap, want := c.calls[i].Sub(c.calls[i-1]), c.delay*time.Duration(i); gap < want || gap > want+2*time.Second {
					t.Errorf("%s: delay after attempt %d: got %v, want %v or little more", name, i, gap, want)
				}
			}
		}
	})
}
