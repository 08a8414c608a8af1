package main

import (
	"math"
	"testing"

	"github.com/millrace-go/millrace/bench/peers/child"
)

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
