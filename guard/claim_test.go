package guard

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A call claims the right to probe for all, while the probe of another call of its process begins and ends. The verdict
// of that probe isn't lost: a service that answers has its breaker open no longer, and a failure counts for all.
func TestLaw7AProbeEndsWhileAnotherCallClaims(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]outcome{"done": success, "failed": failure, "told nothing": neutral} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var meanwhile atomic.Pointer[func()]
				s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Name == "put blob" {
						if f := meanwhile.Swap(nil); f != nil {
							(*f)()
						}
					}
					return do()
				})
				g := New("smtp", Config{Store: s, Logger: slog.New(slog.DiscardHandler)})
				f, b := g.fleet, g.breaker
				defer f.close()
				for range 20 {
					_ = g.Do(t.Context(), func(context.Context) error { return errors.New("down") })
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if _, ok := f.claim(t.Context()); !ok || !f.doc.Open || f.state() != due {
					t.Fatalf("the first call can't probe: state %d, record %+v", f.state(), f.doc)
				}
				meanwhile.Store(new(func() {
					p, _, ok := b.begin("first")
					if !ok {
						t.Error("the first call isn't let through")
					}
					b.end(p, told, nil, 0)
				}))
				f.claim(t.Context())
				if told == neutral {
					time.Sleep(2 * time.Second) // until the next probe
					f.claim(t.Context())
					p, _, _ := b.begin("second")
					b.end(p, success, nil, 0)
				}
				f.free()
				synctest.Wait()
				if wantOpen := told == failure; f.doc.Open != wantOpen || (f.state() == open) != wantOpen || wantOpen && f.doc.Tries != 1 {
					t.Errorf("the breaker is in state %d, and the record is %+v", f.state(), f.doc)
				}
			})
		})
	}
}

// A probe that is due claims the right to call before it has a permit and a slot, so it holds none while the store
// answers.
func TestLaw2AClaimHoldsNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var claims, held atomic.Int64
		var g *Guard
		var claiming atomic.Bool
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if claiming.Load() {
				claims.Add(1)
				held.Add(g.quota.calling.Load())
			}
			return do()
		})
		g = WithInPlace(New("smtp", Config{Store: s, Slots: 1, Logger: slog.New(slog.DiscardHandler)}), 0)
		defer g.fleet.close()
		for g.fleet.state() != open {
			_ = g.Do(t.Context(), func(context.Context) error { return errors.New("down") })
			time.Sleep(100 * time.Millisecond)
		}
		for g.fleet.state() != due {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		claiming.Store(true)
		err := g.Do(t.Context(), func(context.Context) error { claiming.Store(false); return nil })
		if err != nil || claims.Load() == 0 || held.Load() > 0 {
			t.Errorf("got %v; %d requests before the probe, with %d slots", err, claims.Load(), held.Load())
		}
		time.Sleep(time.Minute)
	})
}
