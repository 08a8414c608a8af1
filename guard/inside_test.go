package guard

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
)

// A breaker that is closed again has no timer left, and neither has one that waits for its probe.
func TestLaw5NoTimerIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newTestBreaker(t, func(breaker.Event) {})
		call := func(told breaker.Outcome) {
			if p, _, ok := b.begin(""); ok {
				b.end(p, told, nil, 0)
			}
		}
		for range 20 {
			call(breaker.Failure)
		}
		for _, want := range []struct {
			in    breaker.State
			timer bool
		}{{breaker.Open, true}, {breaker.Due, false}, {breaker.Ramping, false}, {breaker.Closed, false}} {
			in := b.view().State
			b.mu.Lock()
			timer := b.wake.timer != nil || b.watch.timer != nil
			b.mu.Unlock()
			if in != want.in || timer != want.timer {
				t.Errorf("in state %d with a timer: %v; want state %d: %v", in, timer, want.in, want.timer)
			}
			switch in {
			case breaker.Open:
				time.Sleep(2 * time.Second)
				synctest.Wait()
			case breaker.Due:
				call(breaker.Success)
			case breaker.Ramping:
				for range 100 {
					call(breaker.Success)
				}
			}
		}
	})
}

func newTestBreaker(t *testing.T, say func(breaker.Event)) *localBreaker {
	t.Helper()
	cfg, err := Config{}.withDefaults("smtp")
	if err != nil {
		t.Fatal(err)
	}
	return newBreaker(&cfg, say)
}

// A breaker whose timer is lost, as by a bug, lets one call through when the pause has been over for a minute, twice
// the longest time between two probes, and says so.
func TestLaw7ABreakerIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said atomic.Int64
		b := newTestBreaker(t, func(e breaker.Event) {
			if e.Kind == breaker.Stuck {
				said.Add(1)
			}
		})
		begin := func() (permit, bool) { p, _, ok := b.begin("a"); return p, ok }
		b.Update(func(m *breaker.Machine, now time.Time) {
			m.OpenedByOthers(breaker.Outage{Pause: now.Add(time.Hour), Part: 100}, now)
		})
		b.mu.Lock()
		b.wake.timer.Stop()
		b.mu.Unlock()
		time.Sleep(time.Until(b.view().Until) + 59*time.Second)
		if _, ok := begin(); ok || said.Load() > 0 {
			t.Error("a call was let through before")
		}
		time.Sleep(2 * time.Second)
		p, first := begin()
		if _, second := begin(); !first || second || said.Load() != 1 {
			t.Errorf("not one call was let through, and %d lines say so", said.Load())
		}
		b.end(p, breaker.Success, nil, 0)
		b.mu.Lock()
		if b.watch.timer != nil {
			t.Error("a breaker that isn't shut is watched")
		}
		b.mu.Unlock()
	})
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
