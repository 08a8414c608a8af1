package limit_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// until waits until check is true, for a time at most, and returns how long that took.
func until(t *testing.T, what string, most time.Duration, check func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !check() {
		if time.Since(begin) > most {
			t.Errorf("%s: not within %v", what, most)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begin)
}

// backlog keeps a process busy until the end of the test.
func backlog(t *testing.T, r *limit.Rate) {
	ctx, end := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() {
		defer close(done)
		for r.Wait(ctx) == nil {
		}
	}()
	t.Cleanup(func() { end(); <-done; time.Sleep(4 * ttl); synctest.Wait() })
}

// A process whose writes are done, and get no answer, has no share. It has one as soon as a write is answered.
func TestLaw1OnlyAnAnswerRaises(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		var deaf, watched atomic.Bool
		deaf.Store(true)
		var r *limit.Rate
		r = newRate(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" && watched.Load() {
				if n := r.Share(); n > 50 {
					t.Errorf("a share of %v before its write", n)
				}
			}
			err := do()
			if op.Name == "put blob" && deaf.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return err
		}), 100, limit.Config{Strict: true})
		backlog(t, r)
		for range 60 {
			time.Sleep(time.Second)
			if n := r.Share(); n != 0 {
				t.Fatalf("a share of %v without an answer", n)
			}
		}
		deaf.Store(false)
		other := newRate(t, s, 100, limit.Config{})
		until(t, "half for each", ttl, func() bool {
			_, _ = other.Take()
			return r.Share() == 50 && other.Share() == 50
		})
		deaf.Store(true)
		if err := other.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if n := r.Share(); n > 50 {
				t.Fatalf("a share of %v without an answer", n)
			}
		}
		deaf.Store(false)
		until(t, "all for one", ttl, func() bool { return r.Share() == 100 })

		again := newRate(t, s, 100, limit.Config{})
		until(t, "half for each again", ttl, func() bool {
			_, _ = again.Take()
			return r.Share() == 50 && again.Share() == 50
		})
		time.Sleep(ttl / 10)
		watched.Store(true) // from here on one write raises the share
		if err := again.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		until(t, "all for one again", ttl, func() bool {
			done := r.Share() == 100
			watched.Store(!done)
			return done
		})
	})
}

// Two processes want all. The second one gets its half only after the first has given it up.
func TestLaw1TheFirstLowersBeforeTheSecondRaises(t *testing.T) {
	for name, over := range map[string]func(*storage.Store) *storage.Store{
		"with rings":    func(s *storage.Store) *storage.Store { return s },
		"without rings": storagetest.Plain,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, s *storage.Store) {
				a, b := newRate(t, over(s), 100, limit.Config{}), newRate(t, over(s), 100, limit.Config{})
				backlog(t, a)
				until(t, "all for one", time.Second, func() bool { return a.Share() == 100 })
				time.Sleep(time.Minute)
				backlog(t, b)
				took := until(t, "half for each", ttl, func() bool {
					if sum := a.Share() + b.Share(); sum > 100 {
						t.Errorf("the sum is %v", sum)
					}
					return a.Share() == 50 && b.Share() == 50
				})
				if rings := over(s).Rings(); rings && took > 2*time.Second {
					t.Errorf("it took %v with rings", took)
				}
			})
		})
	}
}

// A share is lowered before that is written.
func TestLaw1ALowerShareDoesNotWaitForItsWrite(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		var slow atomic.Bool
		a := newRate(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" && slow.Load() {
				time.Sleep(4 * time.Second)
			}
			return do()
		}), 100, limit.Config{})
		backlog(t, a)
		until(t, "all for one", time.Second, func() bool { return a.Share() == 100 })
		slow.Store(true)
		b := newRate(t, s, 100, limit.Config{})
		backlog(t, b)
		until(t, "a lower share", 2*time.Second, func() bool { return a.Share() == 50 })
		if n := b.Share(); n != 0 {
			t.Errorf("the other has %v before that is written", n)
		}
		until(t, "half for each", ttl, func() bool { return b.Share() == 50 })
	})
}

// A process that can't reach the store stops before another gets its share.
func TestLaw2AShareEndsBeforeOthersHaveIt(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		a, b := newRate(t, link.Store, 100, limit.Config{Strict: true}), newRate(t, s, 100, limit.Config{Strict: true})
		backlog(t, a)
		backlog(t, b)
		until(t, "half for each", ttl, func() bool { return a.Share() == 50 && b.Share() == 50 })
		link.Cut()
		ended := until(t, "the end of a share", ttl*5/6, func() bool { return a.Share() == 0 || b.Share() > 50 })
		given := ended + until(t, "all for the other", ttl, func() bool {
			if sum := a.Share() + b.Share(); sum > 100 {
				t.Errorf("the sum is %v", sum)
			}
			return b.Share() == 100
		})
		if ended < ttl*5/6-ttl/3 || given < ttl*7/6-ttl/3 || given > ttl*3/2 {
			t.Errorf("it ended after %v, and was given away after %v", ended, given)
		}
		link.Restore()
		until(t, "half for each again", ttl, func() bool {
			if sum := a.Share() + b.Share(); sum > 100 {
				t.Errorf("the sum is %v", sum)
			}
			return a.Share() == 50 && b.Share() == 50
		})
	})
}

// A new share's bucket is empty, and a full one holds the permits of 0.2 seconds.
func TestLaw3TheBucket(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		r := newRate(t, s, 100, limit.Config{})
		if err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := busy(r, 10*time.Second); n < 990 || n > 1000 {
			t.Errorf("%d calls in the first 10 seconds", n)
		}
		time.Sleep(time.Second)
		n := 0
		for _, ok := r.Take(); ok; _, ok = r.Take() {
			n++
		}
		if n != 20 {
			t.Errorf("the bucket held %d permits, want 20", n)
		}
		time.Sleep(4 * ttl)
	})
}

// The share of a process that dies returns, whether others want it at that time or later.
func TestLaw5TheShareOfADeadProcessReturns(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		dead, alive := newRate(t, link.Store, 100, limit.Config{Strict: true}), newRate(t, s, 100, limit.Config{})
		busy(dead, 10*time.Second)
		link.Cut()
		backlog(t, alive)
		took := until(t, "all for the other", ttl*3/2, func() bool { return alive.Share() == 100 })
		if took < ttl {
			t.Errorf("it was given away after %v", took)
		}
	})
}

// A slot is a number in its process's row, so a process that dies with calls under way leaves none behind.
func TestLaw5NoSlotIsLeftBehind(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		dead, alive := newSlots(t, link.Store, 4), newSlots(t, s, 4)
		for range 4 {
			if err := dead.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		link.Cut()
		begin := time.Now()
		for range 4 {
			if err := alive.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took < ttl || took > 2*ttl {
			t.Errorf("the slots came back after %v", took)
		}
		for range 4 {
			alive.Give()
			dead.Give()
		}
		time.Sleep(4 * ttl)
	})
}

// A process that makes no calls leaves. Then it asks the store for nothing; a goroutine that is left would fail the
// test.
func TestLaw7IdleCostsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		store := storagetest.Intercept(s, calls.Hook)
		r := newRate(t, store, 100, limit.Config{})
		slots := newSlots(t, store, 10)
		if calls.Count() != 0 {
			t.Errorf("%d requests before the first call", calls.Count())
		}
		busy(r, time.Minute)
		if n := calls.Count(); n > 24 {
			t.Errorf("%d requests in a minute", n)
		}
		if err := slots.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * ttl)
		slots.Give()
		time.Sleep(2 * ttl)
		synctest.Wait()
		before := calls.Count()
		time.Sleep(time.Hour)
		if n := calls.Count() - before; n != 0 {
			t.Errorf("%d requests in an idle hour", n)
		}
		// A process that leaves makes room at once.
		busy(r, time.Second)
		if err := r.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		other := newRate(t, s, 100, limit.Config{})
		busy(other, time.Second)
		if n := other.Share(); n != 100 {
			t.Errorf("a share of %v after the other has left", n)
		}
		time.Sleep(4 * ttl)
	})
}

// A blob heals, however damaged or foreign it is.
func TestLaw8ABadBlobHeals(t *testing.T) {
	for what, body := range map[string]string{
		"all is given away":    `{"members":{"x":{"limit":100000,"share":100000,"wants":100000,"beat":1,"ttl":60000}}}`,
		"more than there is":   `{"members":{"x":{"limit":100000,"share":900000000,"wants":1,"beat":1,"ttl":60000}}}`,
		"a tiny limit":         `{"members":{"x":{"limit":1,"share":1,"wants":1,"beat":1,"ttl":60000}}}`,
		"a negative share":     `{"members":{"x":{"limit":1,"share":-5,"wants":1,"beat":1,"ttl":60000}}}`,
		"a share for ever":     `{"members":{"x":{"limit":1,"share":1,"wants":1,"beat":1,"ttl":6000000}}}`,
		"not a number":         `{"members":{"x":{"limit":"all"}}}`,
		"no members":           `{}`,
		"something else":       `hello`,
		"nothing":              ``,
		"a number that is big": `{"members":{"x":{"limit":100000,"share":9e99,"wants":1,"beat":1,"ttl":60000}}}`,
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, s *storage.Store) {
				if _, err := s.Blobs("shares").Put(t.Context(), "rate/"+name, []byte(body), storage.Condition{}); err != nil {
					t.Fatal(err)
				}
				a := newRate(t, s, 100, limit.Config{Strict: true})
				backlog(t, a)
				if took := until(t, "a share", 90*time.Second, func() bool { return a.Share() == 100 }); took < time.Minute {
					t.Errorf("after %v somebody might still have used the share", took)
				}
			})
		})
	}
}

// When the store is away, a process goes on with its part of what it saw last, or not at all if it is strict.
func TestTheStoreIsAway(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		links := [2]*storagetest.Link{storagetest.NewLink(s), storagetest.NewLink(s)}
		a, b := newRate(t, links[0].Store, 100, limit.Config{}), newRate(t, links[1].Store, 100, limit.Config{Strict: true})
		late := newRate(t, links[0].Store, 100, limit.Config{})
		backlog(t, a)
		backlog(t, b)
		until(t, "half for each", ttl, func() bool { return a.Share() == 50 && b.Share() == 50 })
		links[0].Cut()
		links[1].Cut()
		if n := busy(late, 4*ttl); n != 0 {
			t.Errorf("%d calls of a process that has never reached the store", n)
		}
		if x, y := a.Share(), b.Share(); x != 50 || y != 0 {
			t.Errorf("got %v and %v, want 50 and 0", x, y)
		}
		links[0].Restore()
		links[1].Restore()
		until(t, "shares again", 4*ttl, func() bool { return a.Share() == 50 && b.Share() == 50 })
	})
}

func TestFaults(t *testing.T) {
	inWorld(t, func(t *testing.T, s *storage.Store) {
		want := func(what string, err error) {
			t.Helper()
			if err == nil {
				t.Errorf("%s is no fault", what)
			}
		}
		for _, number := range []float64{0, -1, 0.1, math.NaN(), math.Inf(1)} {
			_, err := limit.NewRate(s, name, number, limit.Config{})
			want("a rate", err)
			want("a new rate", newRate(t, s, 1, limit.Config{}).Set(number))
		}
		for _, n := range []int{0, -1} {
			_, err := limit.NewSlots(s, name, n, limit.Config{})
			want("slots", err)
			want("new slots", newSlots(t, s, 1).Set(n))
		}
		_, err := limit.NewRate(nil, name, 1, limit.Config{})
		want("no store", err)
		_, err = limit.NewRate(s, "", 1, limit.Config{})
		want("no name", err)
	})
}

// A limit without a store is this process's own.
func TestLocal(t *testing.T) {
	inWorld(t, func(t *testing.T, _ *storage.Store) {
		r, err := limit.LocalRate(100)
		if err != nil {
			t.Fatal(err)
		}
		if n := busy(r, 10*time.Second); n < 990 || n > 1000 {
			t.Errorf("%d calls in 10 seconds", n)
		}
		if err := r.Set(10); err != nil {
			t.Fatal(err)
		}
		if n := busy(r, 10*time.Second); n < 98 || n > 102 {
			t.Errorf("%d calls in 10 seconds", n)
		}
		slots, err := limit.LocalSlots(2)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, true, false} {
			if _, ok := slots.Take(); ok != want {
				t.Errorf("a slot: %v, want %v", ok, want)
			}
		}
		slots.Give()
		if _, ok := slots.Take(); !ok {
			t.Error("a slot that was given back is not free")
		}
		if err := errors.Join(slots.Leave(t.Context()), r.Leave(t.Context())); err != nil {
			t.Error(err)
		}
		_, badRate := limit.LocalRate(0)
		_, badSlots := limit.LocalSlots(0)
		if badRate == nil || badSlots == nil {
			t.Error("a limit of nothing is no fault")
		}
	})
}
