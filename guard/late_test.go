package guard

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A process claims the probe and stands still before its call begins. Another process may probe by then, so the call
// doesn't begin.
func TestLaw2AProcessThatStoodStillDoesNotProbe(t *testing.T) {
	t.Parallel()
	for _, still := range []time.Duration{time.Second, 5 * time.Second} {
		t.Run(still.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var stop atomic.Bool
				s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
					err := do()
					if op.Name == "put blob" && stop.CompareAndSwap(true, false) {
						time.Sleep(still)
					}
					return err
				})
				g := New("smtp", Config{Store: s, Logger: slog.New(slog.DiscardHandler)})
				defer g.fleet.Close()
				for range 20 {
					_ = g.Do(t.Context(), func(context.Context) error { return errors.New("down") })
				}
				for g.breaker.view().State != breaker.Due {
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
				}
				stop.Store(true)
				called := false
				err := g.Do(t.Context(), func(context.Context) error { called = true; return nil })
				if want := still < 5*time.Second; called != want || (err == nil) != want {
					t.Errorf("called: %v, %v; want %v", called, err, want)
				}
				if !called { // the next call claims anew
					time.Sleep(10 * time.Second)
					if err := g.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
