package worker_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
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
		s := openStore(t)
		routes, err := channel.NewRoutes(channel.Command[job]("slow"), channel.Command[added]("fast"))
		if err != nil {
			t.Fatal(err)
		}
		w := &world{store: s}
		if w.channels, err = channel.New(s, routes, "/test"); err != nil {
			t.Fatal(err)
		}
		w.registry = handlers.NewRegistry(w.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
		var slow, fast peak
		var tries atomic.Int64
		handlers.React(w.registry, "slow", func(context.Context, job) error { slow.run(time.Second); return nil })
		handlers.React(w.registry, "fast", func(_ context.Context, e added) error {
			if fast.run(time.Millisecond); e.N < 0 {
				tries.Add(1)
				return context.Canceled
			}
			return nil
		})
		w.start(t, worker.Config{Concurrency: 7, MaxAttempts: 9, RetryDelay: func(int, string) time.Duration { return time.Second }, Queues: map[string]worker.QueueConfig{
			"slow": {Concurrency: 50},
			"fast": {MaxAttempts: 2},
		}})
		jobs, err := channel.NewSender[job](w.channels)
		if err != nil {
			t.Fatal(err)
		}
		if err := jobs.Send(t.Context(), make([]job, 200)...); err != nil {
			t.Fatal(err)
		}
		events, err := channel.NewSender[added](w.channels)
		if err != nil {
			t.Fatal(err)
		}
		if err := events.Send(t.Context(), append(make([]added, 200), added{N: -1})...); err != nil {
			t.Fatal(err)
		}
		w.empty(t, time.Second)
		wantInt(t, "slow ones at a time", int(slow.most.Load()), 50)
		wantInt(t, "fast ones at a time", int(fast.most.Load()), 7)
		wantInt(t, "attempts at a fast one that fails", int(tries.Load()), 2)
	})
}
