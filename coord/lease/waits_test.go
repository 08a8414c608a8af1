package lease_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Five programs publish into one document again and again, a tenth of a second at a time, on a store that tells nobody
// of a release. Nine waits of ten are two seconds at most. Chance decides who looks first, so the longest wait has no
// tight bound. Still no wait is as long as that after a holder's death.
func TestShortScopesWaitShortlyWhereNothingRings(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		const publishers, times, scope = 5, 40, 100 * time.Millisecond
		var requests atomic.Int64
		slow := storagetest.Intercept(storagetest.Plain(s), func(ctx context.Context, op storagetest.Op, do func() error) error {
			requests.Add(1)
			time.Sleep(8 * time.Millisecond)
			return do()
		})
		var mu sync.Mutex
		var waits []time.Duration
		var all sync.WaitGroup
		for range publishers {
			all.Go(func() {
				for range times {
					asked := time.Now()
					err := lease.Update(t.Context(), slow, "docs", key, lease.Config{}, func(_ context.Context, old []byte) ([]byte, error) {
						mu.Lock()
						waits = append(waits, time.Since(asked))
						mu.Unlock()
						time.Sleep(scope)
						return append(old, 'x'), nil
					})
					if err != nil {
						t.Error(err)
					}
					time.Sleep(2 * scope)
				}
			})
		}
		all.Wait()
		slices.Sort(waits)
		p90, longest := waits[len(waits)*9/10], waits[len(waits)-1]
		each := requests.Load() / int64(len(waits))
		t.Logf("p90 %v, longest %v, %d requests for each", p90, longest, each)
		if p90 > 2*time.Second || longest > ttl || each > 30 {
			t.Errorf("p90 %v, longest %v, %d requests for each; want 2s, %v and 30 at most", p90, longest, each, ttl)
		}
	})
}

// A long scope costs the one who waits few looks more than its polls.
func TestALongScopeCostsItsWaiterFewLooks(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, s)
		var requests atomic.Int64
		counted := storagetest.Intercept(storagetest.Plain(s), func(_ context.Context, _ storagetest.Op, do func() error) error {
			requests.Add(1)
			return do()
		})
		next := inBackground(t, counted, lease.Config{TTL: ttl})
		time.Sleep(10 * time.Minute)
		if n := requests.Load(); n > 20*7+30 {
			t.Errorf("%d requests in 20 TTLs, want 7 for each and 30 at the beginning at most", n)
		}
		release(t, l)
		release(t, <-next)
		time.Sleep(ttl)
	})
}
