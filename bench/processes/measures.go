package main

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/bench/stats"
)

// A trial is a measurement in a process of its own, on an open contestant.
type trial struct {
	contestant
	journal   *journal
	spell     time.Duration
	instances int
}

// A tryFunc makes a measurement and returns the values of its work's metrics.
type tryFunc func(ctx context.Context, t *trial) ([]float64, error)

// sequences measures instances of a few steps, after some that warm the system up.
func sequences(parallel int) tryFunc {
	return func(ctx context.Context, t *trial) ([]float64, error) {
		const warm = 16
		if err := t.Sequence(ctx, warm, shortSteps, warm); err != nil {
			return nil, err
		}
		if _, err := t.journal.take(warm * shortSteps); err != nil {
			return nil, err
		}
		ran, began := 0, time.Now()
		for ran == 0 || time.Since(began) < t.spell {
			if err := t.Sequence(ctx, t.instances, shortSteps, parallel); err != nil {
				return nil, err
			}
			ran += t.instances * shortSteps
		}
		took := time.Since(began)
		steps, err := t.journal.take(ran)
		if err != nil {
			return nil, err
		}
		each := latencies(steps)
		return []float64{float64(ran) / took.Seconds(), stats.Percentile(each, 50), stats.Percentile(each, 99)}, nil
	}
}

// fanOuts measures instances of n children each, one after the other, after a small one.
func fanOuts(n int) tryFunc {
	return func(ctx context.Context, t *trial) ([]float64, error) {
		const warm = 10
		if err := t.FanOut(ctx, warm); err != nil {
			return nil, err
		}
		if _, err := t.journal.take(warm); err != nil {
			return nil, err
		}
		var times []float64
		for began := time.Now(); len(times) == 0 || time.Since(began) < t.spell; {
			from := time.Now()
			if err := t.FanOut(ctx, n); err != nil {
				return nil, err
			}
			times = append(times, time.Since(from).Seconds())
			if _, err := t.journal.take(n); err != nil {
				return nil, err
			}
		}
		middle := stats.Percentile(times, 50)
		return []float64{middle, float64(n) / middle}, nil
	}
}

// idle measures the steps of an instance that has the system for itself.
func idle(ctx context.Context, t *trial) ([]float64, error) {
	const steps = 20
	if err := t.Sequence(ctx, 1, steps, 1); err != nil {
		return nil, err
	}
	if _, err := t.journal.take(steps); err != nil {
		return nil, err
	}
	ran := 0
	for began := time.Now(); ran == 0 || time.Since(began) < t.spell; ran += steps {
		if err := t.Sequence(ctx, 1, steps, 1); err != nil {
			return nil, err
		}
	}
	began, err := t.journal.take(ran)
	if err != nil {
		return nil, err
	}
	each := latencies(began)
	return []float64{stats.Percentile(each, 50), stats.Percentile(each, 99)}, nil
}

// stored measures how much a long instance adds to the store, in which another instance has made all tables.
func stored(ctx context.Context, t *trial) ([]float64, error) {
	if err := t.Sequence(ctx, 1, 1, 1); err != nil {
		return nil, err
	}
	before, err := t.Stored(ctx)
	if err != nil {
		return nil, err
	}
	err = t.Sequence(ctx, 1, longSteps, 1)
	if _, short := t.journal.take(1 + longSteps); err == nil {
		err = short
	}
	if err != nil {
		return nil, err
	}
	after, err := t.Stored(ctx)
	if err == nil && after <= before {
		err = errors.New("the store has not grown")
	}
	return []float64{float64(after-before) / 1000}, err
}
