package operator

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A break that waits frees the lock of a holder that was killed, for programs that try once and end.
func TestLocksBreakWaitsForThoseWhoTryOnce(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStranger(t, s)
		link := storagetest.NewLink(s)
		l := acquire(t, link.Store, "a", "one")
		link.Cut()
		contains(t, "too short", x.want(t, 1, "", "locks", "break", "a", "-why", "killed", "-wait", "5s"), "broken, and not free after 5s")
		began := time.Now()
		contains(t, "free", x.want(t, 0, "", "locks", "break", "a", "-why", "killed", "-wait", "1m"), "Others can have it at once.")
		if d := time.Since(began); d > 35*time.Second {
			t.Errorf("it waited %v, want 35s less what it has watched before", d)
		}
		next, err := lease.Try(t.Context(), storagetest.Plain(s), "a", lease.Config{})
		if err != nil || next.Fence() != l.Fence()+1 {
			t.Fatalf("Try returned %v, %v", next, err)
		}
		_ = next.Release(t.Context())
	})
}
