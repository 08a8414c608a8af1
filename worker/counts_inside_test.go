package worker

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A quantile is the time of a run, at most an eighth too long.
func TestTimesAreAtMostAnEighthTooLong(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for d := time.Duration(0); d < time.Hour; d += d/7 + time.Duration(r.IntN(900)) {
		var one Times
		one.n[timeStep(d)]++
		if got := one.Quantile(0.99); got <= d || got > d+d/8+time.Microsecond {
			t.Fatalf("%v: got %v", d, got)
		}
	}
	for _, d := range []time.Duration{-time.Hour, 1<<63 - 1} {
		if step := timeStep(d); step < 0 || step >= timeSteps {
			t.Errorf("%v: got step %d of %d", d, step, timeSteps)
		}
	}
	last := time.Duration(0)
	for step := range timeSteps {
		end := timeOf(step)
		if got := timeStep(end - time.Microsecond); got != step || end <= last {
			t.Errorf("step %d ends at %v, after %v, and its last time is in step %d", step, end, last, got)
		}
		last = end
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var all Times
	if got := all.Quantile(0.5); got != 0 {
		t.Errorf("without a run: got %v", got)
	}
	all.n[timeStep(time.Millisecond)] = 98
	all.n[timeStep(time.Second)] = 2
	for p, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: time.Millisecond, 0.98: time.Millisecond, 0.99: time.Second, 1: time.Second} {
		if got := all.Quantile(p); got != timeOf(timeStep(want)) {
			t.Errorf("quantile %v: got %v, want %v", p, got, want)
		}
	}
}
