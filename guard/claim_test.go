package guard

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// recordOf reads what the breakers of all processes have agreed on.
func recordOf(t *testing.T, s *storage.Store) (r struct {
	Open  bool
	Tries int
}) {
	t.Helper()
	blob, err := s.Blobs("guards").Get(t.Context(), "smtp", "")
	if err == nil {
		err = json.Unmarshal(blob.Body, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A call claims the right to probe for all, while the probe of another call of its process begins and ends. The verdict
// of that probe isn't lost: a service that answers has its breaker open no longer, and a failure counts for all.
func TestLaw7AProbeEndsWhileAnotherCallClaims(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]breaker.Outcome{"done": breaker.Success, "failed": breaker.Failure, "told nothing": breaker.Neutral} {
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
				defer f.Close()
				for range 20 {
					_ = g.Do(t.Context(), func(context.Context) error { return errors.New("down") })
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if _, ok := f.Claim(t.Context()); !ok || !recordOf(t, s).Open || b.view().State != breaker.Due {
					t.Fatalf("the first call can't probe: state %d, record %+v", b.view().State, recordOf(t, s))
				}
				meanwhile.Store(new(func() {
					p, _, ok := b.begin("first")
					if !ok {
						t.Error("the first call isn't let through")
					}
					b.end(p, told, nil, 0)
				}))
				f.Claim(t.Context())
				if told == breaker.Neutral {
					time.Sleep(2 * time.Second) // until the next probe
					f.Claim(t.Context())
					p, _, _ := b.begin("second")
					b.end(p, breaker.Success, nil, 0)
				}
				f.Free()
				synctest.Wait()
				r, state := recordOf(t, s), b.view().State
				if wantOpen := told == breaker.Failure; r.Open != wantOpen || (state == breaker.Open) != wantOpen || wantOpen && r.Tries != 1 {
					t.Errorf("the breaker is in state %d, and the record is %+v", state, r)
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
		defer g.fleet.Close()
		for g.breaker.view().State != breaker.Open {
			_ = g.Do(t.Context(), func(context.Context) error { return errors.New("down") })
			time.Sleep(100 * time.Millisecond)
		}
		for g.breaker.view().State != breaker.Due {
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
