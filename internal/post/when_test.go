package post

import (
	"math"
	"testing"
	"time"
)

// A sum of delays that a Duration can't hold is the longest delay, never one in the past.
func TestDelaysDontOverflow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, then, want time.Duration }{
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, 1, math.MaxInt64},
		{1, 2, 3},
		{-5, 2, -3},
		{math.MinInt64, math.MaxInt64, -1},
	} {
		if got := (When{Delay: c.first}).AddTo(c.then).Delay; got != c.want {
			t.Errorf("%v and %v: got %v, want %v", c.first, c.then, got, c.want)
		}
	}
}

// kindless is a message whose kind only a value has.
type kindless struct{ kind Kind }

func (k kindless) Kind() Kind { return k.kind }

func TestIsNil(t *testing.T) {
	t.Parallel()
	for m, want := range map[Message]bool{
		nil: true, Later{}: true, (*kindless)(nil): true, Later{Message: (*kindless)(nil)}: true, kindless{}: false, Later{Message: kindless{}}: false,
	} {
		if got := IsNil(m); got != want {
			t.Errorf("%#v: got %v, want %v", m, got, want)
		}
	}
}
