package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A contestant is a system that runs processes, open in a place of its own. Each step of an instance, and each child of
// a fan-out, calls the step function that the contestant was opened with, and does nothing else. The contestant's
// methods return when ctx ends. They fail if an instance ends without success.
type contestant interface {
	// Sequence runs instances of steps, one step after the other, at most parallel instances at a time. It returns when
	// the ends of all are stored.
	Sequence(ctx context.Context, instances, steps, parallel int) error

	// FanOut runs one instance that begins n children at once and ends when all have ended. It returns when its end is
	// stored.
	FanOut(ctx context.Context, n int) error

	// Stored returns how many bytes the place has, without what the store could give back.
	Stored(ctx context.Context) (int64, error)

	// Close stops the contestant. It leaves the place as it is.
	Close() error
}

// An opener opens a contestant. It goes on by itself with the instances of a dead process that it finds in the place.
type opener func(ctx context.Context, place string, do stepFunc) (contestant, error)

// A stepFunc is what a step does. Instances of a place have different names. Steps and children count from 0.
type stepFunc func(instance string, step int)

// repeat calls do n times, at most parallel times at once, until a call fails or ctx ends.
func repeat(ctx context.Context, n, parallel int, do func(context.Context) error) error {
	all, going := errgroup.WithContext(ctx)
	all.SetLimit(parallel)
	for range n {
		if going.Err() != nil {
			break
		}
		all.Go(func() error { return do(going) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// A journal notes when steps began. A step that runs again counts once.
type journal struct {
	mu    sync.Mutex
	began map[mark]time.Time
}

type mark struct {
	instance string
	step     int
}

func (j *journal) note(instance string, step int) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.began == nil {
		j.began = map[mark]time.Time{}
	}
	if _, again := j.began[mark{instance, step}]; !again {
		j.began[mark{instance, step}] = now
	}
}

// take returns what was noted, and begins anew. It fails unless all steps have begun that the contestant was to run.
func (j *journal) take(want int) (map[mark]time.Time, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	began := j.began
	j.began = nil
	if len(began) != want {
		return nil, fmt.Errorf("%d different steps began, not %d: the system has not done its work", len(began), want)
	}
	return began, nil
}

// latencies returns the times from the begin of each step to that of the next one of its instance, in milliseconds.
// Steps do nothing, so that is the system's time.
func latencies(began map[mark]time.Time) []float64 {
	var all []float64
	for m, at := range began {
		if before, ok := began[mark{m.instance, m.step - 1}]; ok {
			all = append(all, milli(at.Sub(before)))
		}
	}
	return all
}

func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
