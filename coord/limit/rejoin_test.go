package limit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// tries takes slots for a while and gives none back, or all, and returns how many it has.
func tries(slots *limit.Slots, d time.Duration, keep bool) (has int) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		switch _, ok := slots.Take(); {
		case ok && keep:
			has++
		case ok:
			slots.Give()
		}
	}
	return has
}

// A process joins, can't reach the store, goes idle without being able to say so, and joins again, while another one
// watches its row. The other one doesn't take the new row for the old one, which nobody renews.
func TestLaw1AProcessThatJoinsAgain(t *testing.T) {
	for second := range 7 { // of the other's time between two writes
		t.Run(fmt.Sprint(second), func(t *testing.T) {
			inWorld(t, func(t *testing.T, s *storage.Store) {
				link := storagetest.NewLink(s)
				back, other := newSlots(t, link.Store, 100), newSlots(t, s, 100)
				tries(other, time.Minute+time.Duration(second)*time.Second, false)
				tries(back, 20*time.Millisecond, false)
				tries(other, 500*time.Millisecond, false)
				link.Cut()
				tries(other, 22700*time.Millisecond, false)
				link.Restore()
				var of [2]int
				of[0] = tries(back, 3500*time.Millisecond, true)
				for range 100 {
					of[0] += tries(back, 20*time.Millisecond, true)
					of[1] += tries(other, 80*time.Millisecond, true)
					if sum := back.Share() + other.Share(); sum > 100 {
						t.Errorf("%d slots of 100 are in force", sum)
						break
					}
				}
				if of[0] < 30 || of[1] < 2 || of[0]+of[1] > 100 {
					t.Errorf("%d slots of 100 are in use", of)
				}
				for i, slots := range []*limit.Slots{back, other} {
					for range of[i] {
						slots.Give()
					}
				}
				time.Sleep(4 * ttl)
			})
		})
	}
}

// A process that was idle in an outage goes on as one that was busy, with its part of what it saw before. A strict one
// makes no calls, and neither does one that has never reached the store.
func TestAProcessThatJoinsAgainWhileTheStoreIsAway(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		loose, strict := newRate(t, link.Store, 100, limit.Config{}), newRate(t, link.Store, 100, limit.Config{Strict: true})
		late := newRate(t, link.Store, 100, limit.Config{})
		until(t, "half for each", 2*ttl, func() bool {
			_, _ = loose.Take()
			_, _ = strict.Take()
			return loose.Share() == 50 && strict.Share() == 50
		})
		link.Cut()
		for range 2 {
			busy(late, time.Minute)
			time.Sleep(2 * time.Minute) // they are idle, and leave
			for what, rate := range map[string]*limit.Rate{"a strict process": strict, "one that has never reached the store": late} {
				if n := busy(rate, time.Minute); n != 0 {
					t.Errorf("%s made %d calls", what, n)
				}
			}
			if n := busy(loose, time.Minute); n < 50*45 || n > 50*60 || loose.Share() != 50 {
				t.Errorf("%d calls in a minute, with a share of %v; want 50 a second, soon", n, loose.Share())
			}
		}
		link.Restore()
		until(t, "all for one", 2*ttl, func() bool { return busy(loose, 100*time.Millisecond) > 0 && loose.Share() == 100 })
		time.Sleep(4 * ttl)
	})
}
