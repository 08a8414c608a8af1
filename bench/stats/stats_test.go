package stats

import (
	"math"
	"testing"
)

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Summary
	}{
		{[]float64{3}, Summary{3, 3, 3}},
		{[]float64{9, 1, 4}, Summary{4, 1, 9}},
		{[]float64{4, 1, 2, 100}, Summary{3, 1, 100}},
	} {
		if got := Summarize(c.values); got != c.want {
			t.Errorf("Summarize(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if got := Summarize(nil); !math.IsNaN(got.Median) || !math.IsNaN(got.Min) || !math.IsNaN(got.Max) {
		t.Errorf("Summarize(nil) = %v, want NaN", got)
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
		if got := Percentile(c.values, c.p); got != c.want {
			t.Errorf("percentile %v of %d values = %v, want %v", c.p, len(c.values), got, c.want)
		}
	}
	if got := Percentile(nil, 50); !math.IsNaN(got) {
		t.Errorf("percentile of nothing = %v, want NaN", got)
	}
	if hundred[0] != 100 {
		t.Error("the caller's values were sorted")
	}
}
