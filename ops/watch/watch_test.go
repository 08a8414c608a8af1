package watch

import (
	"slices"
	"testing"
	"time"
)

// The memory of a Watch is bounded, however often it looks.
func TestWatchIsBounded(t *testing.T) {
	t.Parallel()
	var w Watch
	at := time.Now()
	for range 10_000 {
		at = at.Add(100 * time.Millisecond)
		w.remember(&Look{At: at})
	}
	if n := len(w.looks); n < 200 || n > 260 || !slices.IsSortedFunc(w.looks, func(a, b *Look) int { return a.At.Compare(b.At) }) {
		t.Errorf("got %d looks", n)
	}
}
