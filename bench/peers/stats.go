package main

import (
	"math"
	"slices"

	"github.com/millrace-go/millrace/bench/peers/child"
)

// A metric is a number that is computed from samples.
type metric struct {
	name, unit string
	high       bool // more is better
	of         func(child.Sample) float64
}

var rate = []metric{{"rate", "/s", true, func(s child.Sample) float64 { return float64(s.N) / s.Seconds }}}

var metrics = map[child.Work][]metric{
	child.Send1: rate, child.Send16: rate, child.Batch: rate, child.Drain: rate, child.Balanced: rate, child.Sync: rate,
	child.Latency: {
		{"p50", " ms", false, func(s child.Sample) float64 { return percentile(s.Latencies, 50) }},
		{"p99", " ms", false, func(s child.Sample) float64 { return percentile(s.Latencies, 99) }},
	},
	child.Idle: {{"CPU", " s/min", false, func(s child.Sample) float64 { return perMinute(s, s.ClientCPU+s.ServerCPU) }}},
}

func perMinute(s child.Sample, v float64) float64 { return v * 60 / s.Seconds }

// percentile is the smallest value that at least p percent of the values don't exceed; NaN for no values.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(float64(len(sorted))*p/100)), 1)-1]
}

// p99 is the 99th percentile over the jobs of all repetitions, in milliseconds.
func (r *Report) p99(s System) float64 {
	var all []float64
	for _, x := range r.of(s.Name, child.Latency) {
		all = append(all, x.Latencies...)
	}
	return percentile(all, 99)
}

// A summary describes the values of several repetitions.
type summary struct{ median, min, max float64 }

// summarize returns NaN for no values.
func summarize(values []float64) summary {
	if len(values) == 0 {
		return summary{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	median := sorted[half]
	if len(sorted)%2 == 0 {
		median = (sorted[half-1] + sorted[half]) / 2
	}
	return summary{median, sorted[0], sorted[len(sorted)-1]}
}

// times returns how many times as good a is as b, or NaN if that is unknown.
func (m metric) times(a, b float64) float64 {
	if !m.high {
		a, b = b, a
	}
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// better compares for sorting: the better value first, NaN last.
func (m metric) better(a, b float64) int {
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return boolOrder(math.IsNaN(a)) - boolOrder(math.IsNaN(b))
	case a == b:
		return 0
	case a > b == m.high:
		return -1
	}
	return 1
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}
