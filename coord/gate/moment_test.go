package gate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// skewed is the gate for a process whose clock is ahead by d.
func skewed(s *storage.Store, d time.Duration) *gate.Gate {
	return gate.WithClock(gate.At(s, name), func() time.Time { return time.Now().Add(d) })
}

// An announced opening comes at its moment, for those that wait and for those that come later, whatever their clocks
// say then.
func TestAnAnnouncedOpeningIsKeptByTheFirstThatLooks(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		at := time.Now().Add(time.Hour + 1234567*time.Nanosecond)
		announce(t, gate.At(s, name), at)
		var w waiters
		for range 8 {
			w.wait(t, seldom(t, s))
		}
		w.want(t, at, at)
		must(t, skewed(s, -10*time.Minute).Wait(t.Context()))
		if st := stateOf(t, skewed(s, -10*time.Minute)); !st.Open || st.Epoch != 2 || st.Why != "the season begins" || !st.Since.Equal(at) || !st.OpensAt.IsZero() {
			t.Errorf("afterwards: %+v", st)
		}
	})
}

func TestAnAnnouncedOpeningWaitsForSomebodyToLook(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		announce(t, gate.At(s, name), time.Now().Add(time.Hour))
		time.Sleep(24 * time.Hour)
		for i, err := range gate.List(t.Context(), s) {
			if must(t, err); i.Open || i.Epoch != 1 {
				t.Errorf("a listing opened it: %+v", i)
			}
		}
		if st := stateOf(t, gate.At(s, name)); !st.Open || st.Epoch != 2 || !st.Since.Equal(time.Now()) {
			t.Errorf("State sees %+v; want it to open the gate now", st)
		}
	})
}

// Those that wait follow a new announcement at once, and one that is taken back.
func TestAnAnnouncementIsReplaced(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		g, began := gate.At(s, name), time.Now()
		var w waiters
		for range 8 {
			w.wait(t, seldom(t, s))
		}
		announce(t, g, began.Add(time.Hour))
		announce(t, g, began.Add(3*time.Hour))
		announce(t, g, began.Add(3*time.Hour)) // no change
		time.Sleep(2 * time.Hour)
		announce(t, g, began.Add(2*time.Hour+time.Minute))
		time.Sleep(30 * time.Second)
		shut(t, g)
		if st := stateOf(t, g); st.Open || st.Epoch != 4 || !st.OpensAt.IsZero() {
			t.Errorf("taken back: %+v", st)
		}
		time.Sleep(24 * time.Hour)
		if n := w.gone(); n > 0 {
			t.Errorf("%d went at a moment that was taken back", n)
		}
		last := time.Now().Add(time.Minute)
		announce(t, g, last)
		w.want(t, last, last)
	})
}

// A process that can't read the gate at the announced moment doesn't go: somebody may have closed it.
func TestTheBlobDecidesNotTheMoment(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		g := gate.At(s, name)
		var w waiters
		link := storagetest.NewLink(s)
		w.wait(t, gate.At(link.Store, name))
		announce(t, g, time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		link.Cut()
		shut(t, g)
		time.Sleep(2 * time.Hour)
		link.Restore()
		time.Sleep(time.Hour)
		if n := w.gone(); n > 0 {
			t.Error("it went for an announcement that was taken back while it could not read")
		}

		announce(t, g, time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		link.Cut()
		time.Sleep(2 * time.Hour) // the moment passes, and nobody looks
		shut(t, g)
		if st := stateOf(t, g); st.Open || st.Epoch != 5 || st.Openings != 1 {
			t.Errorf("closed after the moment: %+v; want an opening and a closing", st)
		}
		if n := w.gone(); n > 0 {
			t.Error("it went while it could not read")
		}
		link.Restore()
		w.want(t, time.Now(), time.Now().Add(poll))
	})
}

// Clocks matter for an announced moment, and as little as can be.
func TestClocksThatDisagree(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		skews []time.Duration
		early time.Duration // how much before its moment it opens
	}{
		"one is ahead: it opens for all":     {skews: []time.Duration{5 * time.Second, 0, -time.Hour}, early: 5 * time.Second},
		"one is behind: another one opens":   {skews: []time.Duration{-5 * time.Second, 0, 0}},
		"all are behind: it opens late":      {skews: []time.Duration{-5 * time.Second, -time.Minute}, early: -5 * time.Second},
		"one is a day ahead: it opens early": {skews: []time.Duration{24 * time.Hour, 0}, early: 10 * time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				at := time.Now().Add(10 * time.Minute)
				announce(t, gate.At(s, name), at)
				var w waiters
				for _, d := range c.skews {
					w.wait(t, skewed(s, d))
				}
				w.want(t, at.Add(-c.early), at.Add(-c.early))
			})
		})
	}
}

// A clock that jumps is noticed within a poll. One that stands still opens nothing, and holds up nobody else.
func TestClocksThatJumpOrStop(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		began := time.Now()
		jump := began.Add(10 * time.Minute)
		announce(t, gate.At(s, name), began.Add(time.Hour))
		var w waiters
		w.wait(t, gate.WithClock(gate.At(s, name), func() time.Time {
			if now := time.Now(); now.Before(jump) {
				return now
			}
			return time.Now().Add(55 * time.Minute)
		}))
		w.want(t, jump, jump.Add(poll))
	})
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		began := time.Now()
		announce(t, gate.At(s, name), began.Add(time.Minute))
		stopped := gate.WithClock(gate.At(s, name), func() time.Time { return began })
		wantClosed(t, stopped)
		var w waiters
		w.wait(t, stopped)
		time.Sleep(time.Second)
		if !stateOf(t, gate.At(s, name)).Open {
			t.Error("it stays closed for a process whose clock runs")
		}
		w.want(t, time.Now(), time.Now())
	})
}

func TestMomentsThatAreNoGood(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		g := gate.At(s, name)
		for want, at := range map[string]time.Time{
			"the time is zero; to open the gate now, call Open": {},
			"is it in another unit?":                            time.Now().AddDate(200, 0, 0),
			"more than ten years from now":                      time.UnixMilli(time.Now().UnixMicro()),
		} {
			wantErr(t, g.OpenAt(t.Context(), at, gate.Note{}), storage.ErrInvalid, want, name)
		}
		if st := stateOf(t, g); st != (gate.State{}) {
			t.Errorf("afterwards: %+v", st)
		}
		for _, past := range []time.Time{time.Now(), time.Now().Add(-time.Second), time.Unix(0, 0), time.Now().AddDate(-2000, 0, 0), time.Now().AddDate(-99999, 0, 0)} {
			shut(t, g)
			announce(t, g, past)
			if st := stateOf(t, g); !st.Open || !st.OpensAt.IsZero() || st.By != "ada" {
				t.Errorf("opens at %v: %+v; want it open now", past, st)
			}
		}
		later := time.Now().Add(time.Hour)
		if err := g.OpenAt(t.Context(), later, gate.Note{}); !errors.Is(err, gate.ErrOpen) {
			t.Errorf("an announcement for an open gate: %v", err)
		}
		must(t, g.Wait(t.Context()))
	})
}

// A process that can read and not write can't keep an announcement. It goes when another one has.
func TestAnAnnouncedOpeningReachesThoseThatCantWrite(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		reader := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		moment := time.Now().Add(time.Hour)
		announce(t, gate.At(s, name), moment)
		var w waiters
		w.wait(t, gate.At(reader, name))
		time.Sleep(time.Hour + time.Minute)
		if n := w.gone(); n != 0 {
			t.Errorf("%d went before anybody had opened the gate", n)
		}
		if !stateOf(t, gate.At(s, name)).Open {
			t.Error("the moment has come, and the gate is closed")
		}
		w.want(t, time.Now(), time.Now().Add(poll))
	})
}
