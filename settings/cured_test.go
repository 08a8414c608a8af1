package settings_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// Law: an error of Health counts only where Health was well before the change, or has been well since. So a change that
// cures an illness isn't taken back for it, and neither is one that changes nothing in it.
func TestLawNoChangeIsBlamedForAnOlderIllness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		well func(staged bool, since time.Duration) bool // since it runs the change
		want settings.Result
	}{
		"cured at once":      {func(staged bool, _ time.Duration) bool { return staged }, settings.InForce},
		"cured later":        {func(staged bool, d time.Duration) bool { return staged && d > bake/3 }, settings.InForce},
		"ill all the time":   {func(bool, time.Duration) bool { return false }, settings.InForce},
		"cured, ill again":   {func(staged bool, d time.Duration) bool { return staged && d > bake/3 && d < bake*2/3 }, settings.RolledBack},
		"ill with it, later": {func(staged bool, d time.Duration) bool { return !staged || d < bake/3 }, settings.RolledBack},
		"ill with it":        {func(staged bool, _ time.Duration) bool { return !staged }, settings.RolledBack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				var f *fleet
				var ready atomic.Bool
				f = newFleet(t, s, 3, func(i int, cfg *settings.Config) {
					var since time.Time
					cfg.Health = func(context.Context) error {
						staged := ready.Load() && f.nodes[i].Now().Seats == 60
						if staged && since.IsZero() {
							since = time.Now()
						}
						if !ready.Load() || c.well(staged, time.Since(since)) {
							return nil
						}
						return errors.New("mails bounce")
					}
				})
				ready.Store(true)
				_, err := f.nodes[0].Propose(t.Context(), ada, seats(60))
				if err != nil {
					wantErr(t, err, settings.ErrRolledBack, "mails bounce")
				}
				time.Sleep(4 * bake)
				f.ended(1, c.want)
			})
		})
	}
}

// Law: no stage ends without health. A canary that was ill before, and still is, is judged by its work alone: by calls
// that fail more often than before, and never by none.
func TestLawACanaryThatWasIllBeforeIsJudgedByItsWork(t *testing.T) {
	t.Parallel()
	ill := func(context.Context) error { return errors.New("mails bounce") }
	for name, c := range map[string]struct {
		health        func(context.Context) error
		calls, failed int64 // in each poll with the change
		want          settings.Result
		why           string
	}{
		"as many fail":        {ill, 100, 10, settings.InForce, ""},
		"more fail":           {ill, 100, 60, settings.RolledBack, "calls failed"},
		"more fail, panics":   {func(context.Context) error { panic("mails bounce") }, 100, 60, settings.RolledBack, "calls failed"},
		"nothing is called":   {ill, 0, 0, settings.Rolling, "fewer than 100 calls"},
		"nobody can count":    {nil, 100, 60, settings.Rolling, "fewer than 100 calls"}, // for Health hangs
		"nothing is, a panic": {func(context.Context) error { panic("mails bounce") }, 0, 0, settings.Rolling, "fewer than 100 calls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				var f *fleet
				var began atomic.Int64 // when the change came to the node
				over := make(chan struct{})
				defer close(over)
				f = newFleet(t, s, 1, func(_ int, cfg *settings.Config) {
					if cfg.Health = c.health; c.health == nil {
						cfg.Health = func(context.Context) error { <-over; return nil }
					}
					cfg.Work = func() settings.Work {
						w := settings.Work{Done: 9000, Failed: 1000}
						if from := began.Load(); from > 0 {
							polls := int64(time.Since(time.Unix(from, 0)) / poll)
							w.Done, w.Failed = w.Done+polls*(c.calls-c.failed), w.Failed+polls*c.failed
						}
						return w
					}
				})
				v := f.roll(0, 60)
				began.Store(time.Now().Unix())
				time.Sleep(4 * bake)
				if c.want != settings.Rolling {
					if e := f.ended(v, c.want); c.why != "" && !strings.Contains(e.Reasons[0].Why, c.why) {
						t.Errorf("got %+v, want %q", e, c.why)
					}
				} else if r := current(t, s).Rollout; r == nil || !strings.Contains(r.Why, c.why) {
					t.Errorf("got %+v, want %q", r, c.why)
				}
			})
		})
	}
}
