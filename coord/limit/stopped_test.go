package limit

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Law 4: one failed call before a process stood still, and one after it, don't say that the store is away. The process
// goes on with its safe share only when calls have failed for a while without that, also where each of them hangs.
func TestLaw4AStopIsNoOutage(t *testing.T) {
	t.Parallel()
	const stop = 3 * time.Minute
	for how, c := range map[string]struct {
		inCall bool
		takes  time.Duration // each call that fails
	}{
		"between two calls":                   {false, 0},
		"in a call":                           {true, 0},
		"between two calls of one that hangs": {false, time.Minute},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, store *storage.Store) {
				var fails, stops bool
				faulty := storagetest.Intercept(store, func(ctx context.Context, op storagetest.Op, do func() error) error {
					if !fails {
						return do()
					}
					if stops {
						time.Sleep(stop)
					}
					limit := time.NewTimer(c.takes)
					defer limit.Stop()
					select {
					case <-limit.C:
					case <-ctx.Done():
					}
					return op.Fail(storage.ErrUnavailable)
				})
				r, err := NewRate(faulty, "smtp", 100, Config{})
				if err != nil {
					t.Fatal(err)
				}
				p, now := r.p, time.Now()
				m := newMember(p) // the test is its goroutine
				p.asked, p.running, p.left, p.eager, p.since = now, true, make(chan struct{}), true, now
				step := func() int64 {
					began := time.Now()
					m.note(t.Context(), began, m.step(t.Context()))
					return p.safe
				}
				step()
				fails, stops = true, c.inCall
				for range 3 {
					if safe := step(); safe != 0 {
						t.Fatalf("a safe share of %d after a stop and one failed call", safe)
					}
					time.Sleep(stop)
				}
				stops = false
				for began := time.Now(); step() == 0; time.Sleep(m.pause(storage.ErrUnavailable)) {
					if time.Since(began) > 2*p.cfg.ttl {
						t.Fatalf("no safe share after %v", time.Since(began))
					}
				}
			})
		})
	}
}
