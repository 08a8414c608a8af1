package guard

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A breaker that is closed again has no timer left, and neither has one that waits for its probe.
func TestLaw5NoTimerIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := Config{}.withDefaults("smtp")
		if err != nil {
			t.Fatal(err)
		}
		b := newBreaker(&cfg, func(event) {})
		call := func(told outcome) {
			if p, _, ok := b.begin(""); ok {
				b.end(p, told, nil, 0)
			}
		}
		for range 20 {
			call(failure)
		}
		for _, want := range []struct {
			in    state
			timer bool
		}{{open, true}, {due, false}, {ramping, false}, {closed, false}} {
			b.mu.Lock()
			in, timer := b.state, b.timer != nil
			b.mu.Unlock()
			if in != want.in || timer != want.timer {
				t.Errorf("in state %d with a timer: %v; want state %d: %v", in, timer, want.in, want.timer)
			}
			switch in {
			case open:
				time.Sleep(2 * time.Second)
				synctest.Wait()
			case due:
				call(success)
			case ramping:
				for range 100 {
					call(success)
				}
			}
		}
	})
}

// A breaker whose timer is lost, as by a bug, lets one call through when the pause has been over for a minute, twice
// the longest time between two probes, and says so.
func TestLaw7ABreakerIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := Config{}.withDefaults("smtp")
		if err != nil {
			t.Fatal(err)
		}
		var said atomic.Int64
		b := newBreaker(&cfg, func(e event) {
			if e.kind == stuck {
				said.Add(1)
			}
		})
		begin := func() bool { _, _, ok := b.begin("a"); return ok }
		b.mu.Lock()
		b.open(time.Hour)
		until := b.until
		b.timer.Stop()
		b.unlock()
		time.Sleep(time.Until(until) + 59*time.Second)
		if begin() || said.Load() > 0 {
			t.Error("a call was let through before")
		}
		time.Sleep(2 * time.Second)
		if !begin() || begin() || said.Load() != 1 {
			t.Errorf("not one call was let through, and %d lines say so", said.Load())
		}
		b.mu.Lock()
		b.move(closed)
		if b.watch != nil {
			t.Error("a closed breaker is watched")
		}
		b.unlock()
		time.Sleep(2 * time.Hour) // the place of the call ends
	})
}

// A window forgets calls when they are too old, all at once after a pause.
func TestWindow(t *testing.T) {
	t.Parallel()
	start := time.Now()
	w := newWindow(Break{Window: 10 * time.Second, Distinct: 5})
	for _, c := range []struct {
		after           time.Duration
		calls, failures int
	}{{0, 1, 1}, {500 * time.Millisecond, 2, 2}, {5 * time.Second, 3, 3}, {9900 * time.Millisecond, 4, 4}, {10 * time.Second, 3, 3}, {15 * time.Second, 3, 3}, {time.Hour, 1, 1}} {
		w.add("a", true, start.Add(c.after))
		if w.sum.calls != c.calls || w.sum.failures != c.failures {
			t.Errorf("after %v: got %+v, want %d calls", c.after, w.sum, c.calls)
		}
	}
	if len(w.failing) != 1 {
		t.Errorf("one message was seen as %d", len(w.failing))
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "")
	f.Add("-1", "x")
	f.Add("99999999999999999999", "")
	f.Add("Fri, 27 Nov 2026 12:00:10 GMT", "Fri, 27 Nov 2026 12:00:00 GMT")
	f.Add("Fri, 27 Nov 9999 12:00:10 GMT", "Mon, 01 Jan 0001 00:00:00 GMT")
	f.Fuzz(func(t *testing.T, after, date string) {
		if d := retryAfter(http.Header{"Retry-After": {after}, "Date": {date}}); d < 0 || d > longestWait {
			t.Errorf("%q, %q: got %v", after, date, d)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{"120", "", 2 * time.Minute},
		{"Fri, 27 Nov 2026 12:00:10 GMT", "Fri, 27 Nov 2026 12:00:00 GMT", 10 * time.Second},
		{"Fri, 27 Nov 2026 12:00:10 GMT", "", 0}, // no two machines' clocks are compared
		{"Fri, 27 Nov 2026 12:00:10 GMT", "Fri, 27 Nov 2026 12:00:20 GMT", 0},
		{"soon", "", 0},
		{"86400", "", time.Hour},
	} {
		if got := retryAfter(http.Header{"Retry-After": {c.after}, "Date": {c.date}}); got != c.want {
			t.Errorf("%q, %q: got %v, want %v", c.after, c.date, got, c.want)
		}
	}
}
