package guard

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/internal/worldtest"
)

// Law 7: between the end of a probe and the moment when that is told, another call gives up a right that it didn't
// need. All processes learn how the probe ended.
func TestLaw7AProbeIsToldWhateverOthersGiveUp(t *testing.T) {
	for name, told := range map[string]outcome{"done": success, "failed": failure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := New("smtp", Config{Store: worldtest.OpenStore(t, worldtest.Virtual), Logger: slog.New(slog.DiscardHandler)})
				f, b := g.fleet, g.breaker
				defer f.close()
				for range 20 {
					_ = g.Do(t.Context(), func(context.Context) error { return errors.New("down") })
				}
				pause(t.Context(), b.probe.First*3)
				if _, ok := f.claim(t.Context()); !ok {
					t.Fatal("no right to probe")
				}
				p, _, ok := b.begin("")
				if _, second := f.claim(t.Context()); !ok || !second {
					t.Fatal("no probe")
				}
				say := b.say
				b.say = func(e event) { f.free(); say(e) }
				b.end(p, told, nil, 0)
				synctest.Wait()
				f.io <- struct{}{} // so that the record can be read
				r := f.doc
				<-f.io
				if r.Open != (told == failure) || r.Open && r.Tries != 1 {
					t.Errorf("the record is %+v", r)
				}
			})
		})
	}
}
