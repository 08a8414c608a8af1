package keylock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
)

const most = 5 * time.Minute // of a round: a third of the patience

// waiting counts for a key whose first message was due after a minute.
type waiting struct {
	wait  keylock.Wait
	state keylock.State
	came  map[string]int
}

func newWaiting() *waiting {
	w := &waiting{came: map[string]int{}}
	w.state.Wait("first", time.Minute, 0)
	w.wait.Seen()
	time.Sleep(time.Minute)
	return w
}

// come lets time pass, and then messages come.
func (w *waiting) come(after time.Duration, messages ...string) time.Duration {
	time.Sleep(after)
	var here []keylock.Waiter
	for _, m := range messages {
		w.came[m]++
		here = append(here, keylock.Waiter{Message: m, Deliveries: w.came[m]})
	}
	return w.wait.Count(&w.state, most, here...)
}

func wantCounted(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Only rounds of one message that waits are counted: those that begin when the first one is due, each up to a limit.
func TestLaw8OnlyRoundsOfAWitnessCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		wantCounted(t, "the first one that comes", w.come(0, "a"), 0)
		wantCounted(t, "its round", w.come(30*time.Second, "b", "a"), 30*time.Second)
		wantCounted(t, "a long round, as in a pause", w.come(time.Hour, "a"), most+30*time.Second)
		again := w.wait.Count(&w.state, most, keylock.Waiter{Message: "a", Deliveries: w.came["a"]})
		wantCounted(t, "the same delivery", again, most+30*time.Second)
		wantCounted(t, "nobody", w.come(time.Second), most+30*time.Second)
	})
}

// A round that begins before the first message is due proves nothing: that message may come after it.
func TestLaw8NoRoundBeginsBeforeTheFirstIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w waiting
		w.came = map[string]int{}
		w.state.Wait("first", time.Hour, 0)
		for range 100 {
			wantCounted(t, "before", w.come(30*time.Second, "a"), 0)
		}
		wantCounted(t, "a pause", w.come(24*time.Hour, "a"), 0)
		wantCounted(t, "after", w.come(30*time.Second, "a"), 30*time.Second)
	})
}

// Others that stand in one backlog are no proof, however many come. Nor is a copy of the witness, or another process's
// time.
func TestLaw8OthersInABacklogProveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		for _, m := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			wantCounted(t, m, w.come(2*time.Minute, m), 0)
		}
		w.come(0, "a")
		time.Sleep(time.Minute)
		copied := w.wait.Count(&w.state, most, keylock.Waiter{Message: "a", Deliveries: 1})
		wantCounted(t, "a copy", copied, most)
	})
}

// A key goes on for ever neither where its witness is gone, nor under a backlog of hours, nor where other workers get
// most of its messages.
func TestLaw8PatienceEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		comes func(i int) []string
		every time.Duration
		least time.Duration
		want  time.Duration
	}{
		"30 seconds":           {func(int) []string { return []string{"a", "b"} }, 30 * time.Second, 15 * time.Minute, 16 * time.Minute},
		"the witness is gone":  {func(i int) []string { return []string{"a", "b"}[min(i, 1):] }, 30 * time.Second, 30 * time.Minute, 32 * time.Minute},
		"a backlog of 2 hours": {func(i int) []string { return []string{string(rune('a' + i%60))} }, 2 * time.Minute, 6 * time.Hour, 12 * time.Hour},
		"one of ten workers":   {func(i int) []string { return []string{"a", "b", "c"}[i%3 : i%3+1] }, 100 * time.Second, 15 * time.Minute, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWaiting()
				began := time.Now()
				for i := 0; w.come(c.every, c.comes(i)...) < 3*most; i++ {
					if time.Since(began) > c.want {
						t.Fatalf("the key still waits after %v", time.Since(began))
					}
				}
				if took := time.Since(began); took < c.least {
					t.Errorf("patience ended after %v, want at least %v", took, c.least)
				}
			})
		})
	}
}

// Where a queue has lanes, others go past the first message once all that is ready in them was sent after it was due,
// twice: it may have been moved meanwhile, which counts as sending, once.
func TestLaw8LanesAreEmptiedTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting() // the first one is due now
		want := func(what string, oldest time.Duration, want bool) {
			t.Helper()
			if got := w.wait.Emptied(&w.state, oldest); got != want {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		time.Sleep(20 * time.Minute)
		want("a message from before", 20*time.Minute, false)
		want("the age isn't known", -1, false)
		want("one that another clock may say is from before", 19*time.Minute+time.Second, false)
		time.Sleep(10 * time.Minute)
		want("the first time", 15*time.Minute, false)
		time.Sleep(10 * time.Minute)
		want("a message from before the first time", 11*time.Minute, false)
		time.Sleep(10 * time.Minute)
		want("the second time", 12*time.Minute, true)
	})
}

// Lanes that always hold an old message, such as one that others have handed back for days, end no patience for ever.
func TestLaw8LanesAreWaitedForForADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		time.Sleep(24 * time.Hour)
		if w.wait.Emptied(&w.state, 48*time.Hour) {
			t.Error("others go past after a day")
		}
		time.Sleep(time.Second)
		if !w.wait.Emptied(&w.state, 48*time.Hour) {
			t.Error("others still wait after more than a day")
		}
	})
}
