package limit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/storage"
)

// The smallest limit counts. Slots in use are given up as their calls end, and nobody gets one before.
func TestLaw6ALimitThatIsLowered(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		a, b := newRate(t, s, 100, limit.Config{}), newRate(t, s, 100, limit.Config{})
		backlog(t, a)
		backlog(t, b)
		until(t, "half for each", ttl, func() bool { return a.Share() == 50 && b.Share() == 50 })
		if err := a.Set(20); err != nil {
			t.Fatal(err)
		}
		if n := a.Share(); n > 20 {
			t.Errorf("a share of %v of 20", n)
		}
		until(t, "half of the new limit for each", ttl, func() bool { return a.Share() == 10 && b.Share() == 10 })
		if err := a.Set(200); err != nil {
			t.Fatal(err)
		}
		until(t, "half of the other's limit for each", ttl, func() bool { return a.Share() == 50 && b.Share() == 50 })
	})
}

func TestLaw6SlotsInUseAreGivenUpAsTheyEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		a, b := newSlots(t, s, 8), newSlots(t, s, 8)
		for range 8 {
			if err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, slots := range []*limit.Slots{a, b} {
			if err := slots.Set(4); err != nil {
				t.Fatal(err)
			}
		}
		running := 8
		for running > 2 { // b wants two of the four
			if _, ok := a.Take(); ok {
				t.Error("a call began beyond the share")
			}
			if _, ok := b.Take(); ok {
				if running++; running > 4 {
					t.Fatalf("%d calls at a time, limit 4", running)
				}
				b.Give()
				running--
			}
			time.Sleep(time.Second)
			a.Give()
			running--
		}
		until(t, "two slots for each", ttl, func() bool {
			if _, ok := b.Take(); ok {
				b.Give()
			}
			return a.Share() == 2 && b.Share() == 2
		})
		a.Give()
		a.Give()
		time.Sleep(4 * ttl)
	})
}

// Five processes want two slots. Each has one in its turn, and there are never more than two calls at a time.
func TestLaw6FewSlotsPassFromOneToAnother(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		const processes = 5
		ctx, end := context.WithCancel(t.Context())
		var (
			running, over atomic.Int64
			calls         [processes]atomic.Int64
			all           sync.WaitGroup
		)
		for n := range processes {
			slots := newSlots(t, s, 2)
			all.Go(func() {
				for slots.Wait(ctx) == nil {
					if running.Add(1) > 2 {
						over.Add(1)
					}
					calls[n].Add(1)
					time.Sleep(100 * time.Millisecond)
					running.Add(-1)
					slots.Give()
				}
			})
		}
		time.Sleep(20 * time.Minute)
		end()
		all.Wait()
		sum := int64(0)
		for n := range processes {
			sum += calls[n].Load()
		}
		for n := range processes {
			if got := calls[n].Load(); got < sum/processes/2 {
				t.Errorf("process %d made %d of %d calls", n, got, sum)
			}
		}
		if n := over.Load(); n > 0 {
			t.Errorf("%d times there were more than two calls", n)
		}
		if most := int64(2 * 10 * 20 * 60); sum < most*8/10 {
			t.Errorf("%d calls; want %d at least", sum, most*8/10)
		}
		time.Sleep(4 * ttl)
	})
}
