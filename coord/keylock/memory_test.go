package keylock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
)

const (
	remembered = 16
	others     = 3 * remembered
)

var errNotNow = errors.New("not now")

// meetOthers lets a process meet more other keys than it remembers. None of them waits.
func meetOthers(t *testing.T, ts *keylock.Turns) {
	t.Helper()
	for i := range others {
		if _, err := ts.Take(t.Context(), fmt.Sprint("k", i), func(*keylock.State, *keylock.Wait) error { return errNotNow }); !errors.Is(err, errNotNow) {
			t.Fatal(err)
		}
	}
}

// leaveHeld writes a row as a process leaves it that dies in its turn.
func leaveHeld(t *testing.T, s *storage.Store, key string) {
	t.Helper()
	dead := newTurns(t, s)
	x := take(t, dead, key)
	held, _ := row(t, s, key)
	end(t, x, x.State())
	if _, err := s.Table("turns").Put(t.Context(), group, key, []byte(held), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// The turn of a dead process is taken over, however many other keys its successor meets meanwhile.
func TestLaw4OtherKeysHoldUpNoTakeover(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		leaveHeld(t, s, "shop-7")
		alive := newTurns(t, s)
		alive.Remember(remembered)
		began := time.Now()
		for {
			x, err := alive.Take(t.Context(), "shop-7", nil)
			if err == nil {
				end(t, x, x.State())
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("not taken over after a minute: %v", err)
			}
			meetOthers(t, alive)
			time.Sleep(5 * time.Second)
		}
	})
}

// Patience is counted, however many other keys its process meets meanwhile.
func TestLaw8OtherKeysUseUpNoPatience(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ts := newTurns(t, s)
		ts.Remember(remembered)
		waitFor(t, ts, "shop-7")
		patienceEndsBesideOthers(t, ts, "shop-7")
	})
}

// A turn that another process has for long counts nothing, however seldom a process asks: what it remembers of the key
// is of before.
func TestLaw8ATurnThatIsHeldUsesUpNoPatience(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ts, other := newTurns(t, s), newTurns(t, s)
		waitFor(t, other, "shop-7")
		ask(t, ts, "shop-7", 0) // so that it knows the key
		x := take(t, other, "shop-7")
		for round := range 60 { // the holder's handler hangs
			time.Sleep(time.Minute)
			_, err := ts.Take(context.Background(), "shop-7", func(s *keylock.State, w *keylock.Wait) error {
				w.Count(s, most, keylock.Waiter{Message: "m", Deliveries: round + 2})
				return errNotNow
			})
			if !errors.Is(err, keylock.ErrHeld) {
				t.Fatalf("after %d minutes: got %v, want ErrHeld", round+1, err)
			}
		}
		end(t, x, x.State())
		if waited := ask(t, ts, "shop-7", 100); waited > most {
			t.Errorf("%v count, want one round at most", waited)
		}
	})
}

// waitFor lets a key wait for a message that is gone.
func waitFor(t *testing.T, ts *keylock.Turns, key string) {
	t.Helper()
	x := take(t, ts, key)
	s := x.State()
	s.Wait("gone", time.Second, 0)
	end(t, x, s)
}

// ask asks for the turn of a key that waits, for a message that comes for the nth time.
func ask(t *testing.T, ts *keylock.Turns, key string, n int) (waited time.Duration) {
	t.Helper()
	_, err := ts.Take(context.Background(), key, func(s *keylock.State, w *keylock.Wait) error {
		waited = w.Count(s, most, keylock.Waiter{Message: "m", Deliveries: n + 1})
		if waited >= 3*most {
			s.First = nil
			return nil
		}
		return errNotNow
	})
	if err != nil && !errors.Is(err, errNotNow) {
		t.Fatal(err)
	}
	return waited
}

// patienceEndsBesideOthers fails the test if a key that waits still waits after 20 minutes.
func patienceEndsBesideOthers(t *testing.T, ts *keylock.Turns, key string) {
	t.Helper()
	waited := time.Duration(0)
	for round := 0; waited < 3*most; round++ {
		if round == 40 {
			t.Fatalf("after 20 minutes, %v count", waited)
		}
		waited = ask(t, ts, key, round)
		meetOthers(t, ts)
		time.Sleep(30 * time.Second)
	}
}

// More keys wait than a process remembers: some after the others, others go past what each of them waits for.
func TestLaw8PatienceEndsWhereVeryManyKeysWait(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ts := newTurns(t, s)
		ts.Remember(remembered)
		for i := range others {
			waitFor(t, ts, fmt.Sprint("k", i))
		}
		left := map[int]bool{}
		for i := range others {
			left[i] = true
		}
		began := time.Now()
		for round := 0; len(left) > 0; round++ {
			if time.Since(began) > 2*time.Hour {
				t.Fatalf("%d of %d keys still wait after two hours", len(left), others)
			}
			for i := range others {
				if left[i] && ask(t, ts, fmt.Sprint("k", i), round) >= 3*most {
					delete(left, i)
				}
			}
			time.Sleep(30 * time.Second)
		}
	})
}

// A key that nobody asks for any more leaves its place to another one.
func TestLaw8KeysThatNobodyAsksForAreForgotten(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ts := newTurns(t, s)
		ts.Remember(remembered)
		for i := range remembered {
			waitFor(t, ts, fmt.Sprint("k", i))
			ask(t, ts, fmt.Sprint("k", i), 0)
		}
		time.Sleep(10 * time.Minute)
		waitFor(t, ts, "shop-7")
		patienceEndsBesideOthers(t, ts, "shop-7")
	})
}
