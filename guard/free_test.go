package guard

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// Law 7: between the end of a probe and the moment when that is told, another call gives up a right that it didn't
// need. All processes learn how the probe ended.
func TestLaw7AProbeIsToldWhateverOthersGiveUp(t *testing.T) {
	for name, told := range map[string]breaker.Outcome{"done": breaker.Success, "failed": breaker.Failure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := worldtest.OpenStore(t, worldtest.Virtual)
				g := New("smtp", Config{Store: s, Logger: slog.New(slog.DiscardHandler)})
				f, b := g.fleet, g.breaker
				defer f.Close()
				for range 20 {
					_ = g.Do(t.Context(), func(context.Context) error { return errors.New("down") })
				}
				pause(t.Context(), g.cfg.Probe.First*3)
				if _, ok := f.Claim(t.Context()); !ok {
					t.Fatal("no right to probe")
				}
				p, _, ok := b.begin("")
				if _, second := f.Claim(t.Context()); !ok || !second {
					t.Fatal("no probe")
				}
				say := b.say
				b.say = func(e breaker.Event) { f.Free(); say(e) }
				b.end(p, told, nil, 0)
				synctest.Wait()
				r := recordOf(t, s)
				if r.Open != (told == breaker.Failure) || r.Open && r.Tries != 1 {
					t.Errorf("the record is %+v", r)
				}
			})
		})
	}
}
