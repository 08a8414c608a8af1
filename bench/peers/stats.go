package main

import (
	"math"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/bench/stats"
)

// A metric is a number that is computed from samples.
type metric struct {
	name, unit string
	high       bool // more is better
	of         func(child.Sample) float64
}

var rate = []metric{{"rate", "/s", true, func(s child.Sample) float64 { return float64(s.N) / s.Seconds }}}

var latency = []metric{
	{"p50", " ms", false, func(s child.Sample) float64 { return stats.Percentile(s.Latencies, 50) }},
	{"p99", " ms", false, func(s child.Sample) float64 { return stats.Percentile(s.Latencies, 99) }},
}

var metrics = map[child.Work][]metric{
	child.Send1: rate, child.Send16: rate, child.Batch: rate, child.Drain: rate, child.Balanced: rate, child.Sync: rate,
	child.Latency: latency, child.Paced: latency,
	child.Waiting: {{"memory", " bytes", false, func(s child.Sample) float64 { return float64(s.Memory) / float64(s.N) }}},
	child.Idle:    {{"CPU", " s/min", false, func(s child.Sample) float64 { return perMinute(s, s.ClientCPU+s.ServerCPU) }}},
}

func perMinute(s child.Sample, v float64) float64 { return v * 60 / s.Seconds }

// p99 is the 99th percentile over the jobs of all repetitions, in milliseconds.
func (r *Report) p99(s System) float64 {
	var all []float64
	for _, x := range r.of(s.Name, child.Latency) {
		all = append(all, x.Latencies...)
	}
	return stats.Percentile(all, 99)
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
