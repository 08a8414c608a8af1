package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

// Keep keeps a worker running until ctx ends: when a process ends, another one takes its place. start registers the
// handlers of a process, and may set the time when it is stopped. queues has settings of single queues.
func (w *World) Keep(ctx context.Context, slot int, start func(*Process) (*handlers.Registry, error), queues map[string]worker.QueueConfig) {
	r := rand.New(rand.NewPCG(w.Plan.Seed, 100+uint64(slot)))
	_ = worldtest.Pause(ctx, w.Plan.Late)
	for n := 1; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("worker%d.%d", slot+1, n)
		if !w.Disturbed() {
			name = "calm " + name
		}
		p := w.worker(name, slot == 0 && n == 1)
		h, err := start(p)
		if err != nil {
			w.Fail("%s: %v", p.Name, err)
			return
		}
		life, stop := context.WithCancel(ctx)
		switch {
		case !p.Until.IsZero():
			life, stop = context.WithTimeout(ctx, time.Until(p.Until))
		case w.Plan.Stops && w.Disturbed():
			life, stop = context.WithTimeout(ctx, time.Duration(10+r.IntN(300))*time.Second)
		}
		p.live(life, h, queues)
		stop()
		_ = worldtest.Pause(ctx, time.Duration(r.IntN(20))*time.Second)
	}
}

// The poll intervals of workers. Once faults are over, rings work, and time only has to pass.
const (
	poll      = 20 * time.Second
	quietPoll = time.Hour
)

// live runs a worker in the process until ctx ends or the process dies.
func (p *Process) live(ctx context.Context, h *handlers.Registry, own map[string]worker.QueueConfig) {
	w := p.World
	queues, interval, consumers := map[string]worker.QueueConfig{}, poll, w.Plan.Consumers
	if !w.Disturbed() {
		interval, consumers = quietPoll, 0 // turns would be renewed every few seconds
	}
	for _, q := range h.Queues() {
		c := own[q]
		if c.PollInterval == 0 {
			c.PollInterval = interval
		}
		if consumers > 0 && c.Limiter == nil {
			c.Limiter = limiters.Workers(consumers)
		}
		queues[q] = c
	}
	wk, err := worker.New(h, worker.Config{
		Name: p.Name, Concurrency: 4, MaxDeliveries: 40, Visibility: w.Plan.Visibility, Queues: queues, Logger: w.Log(p.Name),
		RetryDelay: func(int, string) time.Duration { return time.Minute },
	})
	if err != nil {
		w.Fail("%s: %v", p.Name, err)
		return
	}
	stopped := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.Fuse.C():
			w.Tell("%s is dead", p.Name)
		case <-ctx.Done():
		}
		cancel()
	}()
	w.Tell("%s begins", p.Name)
	trouble := w.Disturbed()
	// A faulty store may refuse the start, and a stop may meet a slow decision that takes longer than the worker
	// waits.
	err = wk.Run(ctx)
	trouble = w.Disturbed() || trouble && err != nil && strings.HasPrefix(err.Error(), "worker: start")
	if err != nil && !p.Fuse.Fired() && !trouble && stopped.Err() == nil {
		w.Fail("%s: Run: %v", p.Name, err)
	}
	w.Tell("%s has ended", p.Name)
}
