package main

import (
	"math"
	"testing"

	"github.com/millrace-go/millrace/bench/peers/child"
)

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   summary
	}{
		{[]float64{3}, summary{3, 3, 3}},
		{[]float64{9, 1, 4}, summary{4, 1, 9}},
		{[]float64{4, 1, 2, 100}, summary{3, 1, 100}},
	} {
		if got := summarize(c.values); got != c.want {
			t.Errorf("summarize(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if got := summarize(nil); !math.IsNaN(got.median) || !math.IsNaN(got.min) || !math.IsNaN(got.max) {
		t.Errorf("summarize(nil) = %v, want NaN", got)
	}
}

func TestPercentile(t *testing.T) {
	var hundred []float64
	for i := 100; i > 0; i-- {
		hundred = append(hundred, float64(i))
	}
	for _, c := range []struct {
		values []float64
		p      float64
		want   float64
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred, 0, 1},
		{hundred[:50], 99, 100}, {[]float64{7}, 50, 7}, {[]float64{1, 2, 3}, 50, 2},
	} {
		if got := percentile(c.values, c.p); got != c.want {
			t.Errorf("percentile %v of %d values = %v, want %v", c.p, len(c.values), got, c.want)
		}
	}
	if got := percentile(nil, 50); !math.IsNaN(got) {
		t.Errorf("percentile of nothing = %v, want NaN", got)
	}
	if hundred[0] != 100 {
		t.Error("the caller's values were sorted")
	}
}

func TestTimes(t *testing.T) {
	high, low := metrics[child.Drain][0], metrics[child.Latency][0]
	if got := high.times(300, 100); got != 3 {
		t.Errorf("three times the rate is %v ×", got)
	}
	if got := low.times(2, 8); got != 4 {
		t.Errorf("a quarter of the latency is %v ×", got)
	}
	if got := high.times(1, 0); !math.IsNaN(got) {
		t.Errorf("beside nothing: %v", got)
	}
	if high.better(2, 1) >= 0 || low.better(2, 1) <= 0 || high.better(math.NaN(), 1) <= 0 || high.better(1, math.NaN()) >= 0 || high.better(1, 1) != 0 {
		t.Error("the wrong one is better")
	}
}
