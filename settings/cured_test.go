package settings_test

import (
	"context"
	"errors"
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
