package breaker

import (
	"fmt"
	"testing"
	"time"
)

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

// world is a machine with its alarms and the calls that are under way.
type world struct {
	m     *Machine
	now   time.Time
	calls []Permit
	next  int // number of the next message
}

// play does one thing: a call begins or ends, other processes tell something, or time passes.
func (w *world) play(what int) {
	last := func(told Outcome, after time.Duration) {
		if n := len(w.calls) - 1; n >= 0 {
			w.m.End(w.calls[n], told, "text", after, w.now)
			w.calls = w.calls[:n]
		}
	}
	switch what {
	case 0:
		if p, _, ok := w.m.Begin(fmt.Sprint(w.next), w.now); ok {
			w.calls, w.next = append(w.calls, p), w.next+1
		}
	case 1:
		last(Success, 0)
	case 2:
		last(Failure, 0)
	case 3:
		last(Neutral, 0)
	case 4:
		last(Throttled, time.Minute)
	case 5:
		if n := len(w.calls); n > 0 && w.calls[0].HasPlace() {
			w.m.Expire(w.calls[0], w.now)
		}
	case 6:
		w.m.OpenedByOthers(Outage{Tries: 1, More: true, Part: 90}, w.now)
	case 7:
		w.m.Recovered(w.now)
	case 8:
		w.m.Postpone(time.Second, w.now)
	case 9:
		if at := w.m.actions.Wake; !at.IsZero() {
			w.now = at
			w.m.Wake(at)
		}
	}
}

// Whatever happens in whatever order, a breaker that is open has an alarm, one that is shut is watched, one that isn't
// shut has no alarm, there is one probe at a time, and the ramp holds.
func TestEachStateHasAWayOut(t *testing.T) {
	t.Parallel()
	const things, steps = 10, 5
	seen, prefixes := map[State]int{}, [][]int{nil, {0, 2, 0, 2}, {6, 9}, {6, 9, 0, 1}, {6, 9, 0, 1, 0, 0}}
	for _, prefix := range prefixes {
		for n := range 100_000 { // things to the power of steps
			w := &world{now: time.Unix(0, 0)}
			w.m = New(Break{Rate: 0.5, Of: 2, Distinct: 2, Window: time.Second}, Probe{First: time.Second, Most: 2 * time.Second}, time.Minute, func() float64 { return 0.5 })
			played := append([]int{}, prefix...)
			for range steps {
				played, n = append(played, n%things), n/things
			}
			for _, what := range played {
				w.play(what)
				v, a := w.m.View(w.now), w.m.actions
				seen[v.State]++
				places := 0
				for _, p := range w.calls {
					if p.HasPlace() && !*p.ended && p.IsOf(v.Epoch) {
						places++
					}
				}
				switch {
				case (v.State == Open) != !a.Wake.IsZero(), v.State.Shut() == a.Watch.IsZero(), v.State == Probing && places != 1,
					v.State == Ramping && (places > v.AtATime || places != w.m.ramp.running), !a.Wake.IsZero() && a.Wake.Before(w.now):
					t.Fatalf("%v: %+v, %+v, %d places", played, v, a, places)
				}
			}
		}
	}
	for _, s := range []State{Closed, Open, Due, Probing, Ramping} {
		if seen[s] == 0 {
			t.Errorf("state %d was never reached", s)
		}
	}
}
