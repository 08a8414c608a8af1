package storecall

import (
	"math"
	"testing"
	"time"
)

func TestDoubled(t *testing.T) {
	t.Parallel()
	const most = 5 * time.Minute
	for _, c := range []struct {
		first, longest time.Duration
		n              int
		want           time.Duration
	}{
		{time.Second, most, 0, time.Second}, {time.Second, most, 1, 2 * time.Second}, {time.Second, most, 8, 256 * time.Second},
		{time.Second, most, 9, most}, {time.Second, most, math.MaxInt, most}, {time.Hour, most, 0, most}, {0, most, 62, 0},
		{1, math.MaxInt64, 62, 1 << 62}, {2, math.MaxInt64, 62, math.MaxInt64},
	} {
		if got := Doubled(c.first, c.longest, c.n); got != c.want {
			t.Errorf("%v doubled %d times, at most %v: got %v, want %v", c.first, c.n, c.longest, got, c.want)
		}
	}
}

func TestDelaysAreSpread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f     func(time.Duration) time.Duration
		least time.Duration
	}{"Spread": {Spread, time.Second / 2}, "Early": {Early, time.Second * 4 / 5}} {
		lower, upper := time.Hour, time.Duration(0)
		for range 1000 {
			d := c.f(time.Second)
			lower, upper = min(lower, d), max(upper, d)
		}
		if span := time.Second - c.least; lower < c.least || upper > time.Second || upper-lower < span*9/10 {
			t.Errorf("%s: from %v to %v, want nearly all from %v to 1s", name, lower, upper, c.least)
		}
		if d := c.f(0); d != 0 {
			t.Errorf("%s of nothing is %v", name, d)
		}
	}
}
