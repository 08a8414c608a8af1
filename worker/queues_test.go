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
