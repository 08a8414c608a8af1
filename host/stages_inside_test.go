package host

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/settings"
)

// The flag -bake gives a program stages, or its own ones another bake.
func TestWithBake(t *testing.T) {
	t.Parallel()
	own := []settings.Stage{{Percent: 20, Bake: time.Hour, Calls: 5}, {Percent: 100, Bake: 2 * time.Hour}}
	for _, c := range []struct {
		own  []settings.Stage
		bake time.Duration
		want []settings.Stage
	}{
		{nil, 0, nil},
		{own, 0, own},
		{nil, time.Minute, settings.InStages(time.Minute, 10, 50, 100)},
		{own, time.Minute, []settings.Stage{{Percent: 20, Bake: time.Minute, Calls: 5}, {Percent: 100, Bake: time.Minute}}},
	} {
		got := withBake(c.own, c.bake)
		if len(got) != len(c.want) {
			t.Fatalf("%v of %v: got %v, want %v", c.bake, c.own, got, c.want)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%v of %v: got %v, want %v", c.bake, c.own, got, c.want)
			}
		}
	}
	if own[0].Bake != time.Hour {
		t.Error("the program's own stages have changed")
	}
}

// A breaker tells against a change if it has opened since, for this process alone, and long enough for the others to
// know.
func TestOpenedBy(t *testing.T) {
	t.Parallel()
	change := time.Now()
	for what, c := range map[string]struct {
		alone, now time.Duration // after the change
		want       bool
	}{
		"before the change": {-time.Second, time.Minute, false},
		"just now":          {time.Minute, time.Minute + aloneFor/2, false},
		"since the change":  {time.Minute, time.Minute + aloneFor, true},
	} {
		if got := openedBy(guard.Counts{Alone: change.Add(c.alone)}, change, change.Add(c.now)); got != c.want {
			t.Errorf("%s: got %v", what, got)
		}
	}
	if openedBy(guard.Counts{}, change, change.Add(time.Hour)) {
		t.Error("a breaker that isn't open alone tells against a change")
	}
}

// A process without a worker counts what its program counts, and nothing if that counts nothing.
func TestWorkWithoutAWorker(t *testing.T) {
	t.Parallel()
	if (&App{}).work(nil) != nil {
		t.Error("a web promises calls")
	}
	own := func() settings.Work { return settings.Work{Done: 3, Failed: 2} }
	for _, worker := range []bool{false, true} {
		if got := (&App{Worker: worker}).work(own)(); got != own() {
			t.Errorf("worker %v: got %+v", worker, got)
		}
	}
	if got := (&App{Worker: true}).work(nil)(); got != (settings.Work{}) {
		t.Errorf("a worker that doesn't run yet: got %+v", got)
	}
}
