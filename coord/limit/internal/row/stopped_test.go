package row

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/limit/internal/bucket"
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
				b := bucket.NewRate(bucket.Units(100), joined(ttl))
				m := newMember(faulty, "rate/smtp", b, Config{TTL: ttl})
				step := func() { began := time.Now(); m.note(t.Context(), began, m.step(t.Context())) }
				step()
				fails, stops = true, c.inCall
				for range 3 {
					step()
					time.Sleep(stop) // so the share that was proved has ended
					if safe := b.Share(); safe != 0 {
						t.Fatalf("a safe share of %d after a stop and one failed call", safe)
					}
				}
				stops = false
				for began := time.Now(); b.Share() == 0; time.Sleep(m.pause(storage.ErrUnavailable)) {
					step()
					if time.Since(began) > 2*ttl {
						t.Fatalf("no safe share after %v", time.Since(began))
					}
				}
			})
		})
	}
}
