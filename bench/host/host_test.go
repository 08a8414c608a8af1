package host

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		before, after Ticks
		want          float64
	}{
		{Ticks{10, 100}, Ticks{40, 200}, 0.3},
		{Ticks{10, 100}, Ticks{10, 200}, 0},
		{Ticks{10, 100}, Ticks{10, 100}, 0},
		{Ticks{}, Ticks{}, 0}, // a system that doesn't tell
	} {
		if got := c.before.Share(c.after); got != c.want {
			t.Errorf("from %v to %v: %v, want %v", c.before, c.after, got, c.want)
		}
	}
	if runtime.GOOS == "linux" {
		if now := Read(); now.all <= 0 || now.stolen < 0 || now.stolen >= now.all {
			t.Errorf("read %+v", now)
		}
	}
}

func TestQuietly(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		lost  []float64 // share lost by each measurement
		most  float64
		want  int // the measurement that is kept
		again int
		err   error
	}{
		"quiet at once":      {lost: []float64{0.01}, most: 0.02, want: 0},
		"whatever is lost":   {lost: []float64{0.9}, most: 1, want: 0},
		"the third is quiet": {lost: []float64{0.5, 0.3, 0.02}, most: 0.02, want: 2, again: 2},
		"never quiet":        {lost: []float64{0.5, 0.2, 0.4, 0.3, 0.6, 0.5}, most: 0.02, want: 1, again: 5},
		"the second fails":   {lost: []float64{0.5}, most: 0.02, want: 1, again: 1, err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next, again := 0, 0
				got, lost, err := Quietly(t.Context(), c.most, func() (int, float64, error) {
					next++
					if next > len(c.lost) {
						return next - 1, 0, broken
					}
					return next - 1, c.lost[next-1], nil
				}, func(int, float64) { again++ })
				if got != c.want || again != c.again || !errors.Is(err, c.err) || err == nil && lost != slices.Min(c.lost) {
					t.Errorf("kept %d, which lost %v, made %d again, %v; want %d, %d, %v", got, lost, again, err, c.want, c.again, c.err)
				}
			})
		})
	}
}

func TestQuietlyEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, _, err := Quietly(ctx, 0, func() (int, float64, error) {
		n++
		cancel()
		return 0, 1, nil
	}, nil)
	if n != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("measured %d times, %v", n, err)
	}
}

func TestMachine(t *testing.T) {
	if got := Machine(); !strings.Contains(got, runtime.GOOS) || !strings.Contains(got, runtime.Version()) {
		t.Errorf("got %q", got)
	}
}
