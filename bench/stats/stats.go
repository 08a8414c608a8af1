// Package stats summarizes what benchmarks measure.
package stats

import (
	"math"
	"slices"
)

// Percentile is the smallest value that at least p percent of the values don't exceed; NaN for no values.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(float64(len(sorted))*p/100)), 1)-1]
}

// A Summary describes the values of several repetitions.
type Summary struct{ Median, Min, Max float64 }

// Summarize returns NaN for no values.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	median := sorted[half]
	if len(sorted)%2 == 0 {
		median = (sorted[half-1] + sorted[half]) / 2
	}
	return Summary{median, sorted[0], sorted[len(sorted)-1]}
}
