package terminal

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// On a terminal, long work has a bar that moves ten times a second and disappears at the end. Short work has none.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w strings.Builder
		p := newProgress(&w, "Reading", 10)
		p.terminal = true
		p.Add(1)
		if w.Len() > 0 {
			t.Errorf("at once: got %q, want nothing yet", w.String())
		}
		time.Sleep(2 * barEvery)
		p.Add(4)
		p.Add(1) // too soon to be drawn
		want := "\rReading [###############...............] 5 of 10\x1b[K"
		if w.String() != want {
			t.Errorf("got %q, want %q", w.String(), want)
		}
		p.End()
		p.End()
		if want += "\r\x1b[K"; w.String() != want {
			t.Errorf("in the end: got %q, want %q", w.String(), want)
		}
	})
}

// Without a terminal there is no bar, however long the work takes.
func TestProgressElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w strings.Builder
		p := newProgress(&w, "Reading", 100_000)
		for range 100 {
			p.Add(1000)
			time.Sleep(2 * barEvery)
		}
		p.End()
		if w.Len() > 0 {
			t.Errorf("got %q, want nothing", w.String())
		}
	})
}
