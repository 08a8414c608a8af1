package keylock

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"
)

// Whatever the order in which the messages of a source come, whatever repeats, whatever is poisoned, and whenever
// others lose their patience: each message runs, none begins before the one before it is done or was given up, and what
// was done in order runs once.
func TestLawOfOrder(t *testing.T) {
	t.Parallel()
	err := quick.Check(func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 1))
		var s State
		type event struct{ sequence, previous uint64 }
		var all []event
		last := uint64(0)
		for range 40 {
			next := last + 1 + r.Uint64N(3) // others go to other queues
			all = append(all, event{next, last})
			last = next
		}
		runs, givenUp := map[uint64]int{}, map[uint64]bool{}
		waiting := append([]event(nil), all...)
		for steps := 0; len(waiting) > 0; steps++ {
			if steps > 5000 {
				t.Errorf("seed %d: %d wait for ever: %+v", seed, len(waiting), s)
				return false
			}
			i := r.IntN(len(waiting))
			e := waiting[i]
			again := r.IntN(4) == 0 // it comes once more
			switch s.Place(e.sequence, e.previous) {
			case Early:
				if r.IntN(50) == 0 { // out of patience
					for _, x := range all {
						if x.sequence > s.Done && x.sequence <= e.previous {
							givenUp[x.sequence] = true
						}
					}
					s.GoPast(e.previous)
				}
				continue
			case Repeat:
				if runs[e.sequence] == 0 {
					t.Errorf("seed %d: %d is forgotten: %+v", seed, e.sequence, s)
					return false
				}
			case Late:
				runs[e.sequence]++
				s.Pass(e.sequence, e.previous)
			case Next:
				for _, x := range all {
					if x.sequence < e.sequence && runs[x.sequence] == 0 && !givenUp[x.sequence] {
						t.Errorf("seed %d: %d runs before %d: %+v", seed, e.sequence, x.sequence, s)
						return false
					}
				}
				s.Pass(e.sequence, e.previous)
				if r.IntN(10) == 0 { // it is poisoned, and sent back
					givenUp[e.sequence] = true
					s.MayCome(e.sequence)
					continue
				}
				runs[e.sequence]++
			}
			if !again {
				waiting = append(waiting[:i], waiting[i+1:]...)
			}
		}
		for _, e := range all {
			if runs[e.sequence] == 0 || runs[e.sequence] > 1 && !givenUp[e.sequence] && len(s.Past) < maxSpans-1 && len(givenUp) < maxSpans/2 {
				t.Errorf("seed %d: %d ran %d times", seed, e.sequence, runs[e.sequence])
				return false
			}
		}
		return len(s.Past) <= maxSpans
	}, &quick.Config{MaxCount: 500, Rand: nil})
	if err != nil {
		t.Error(err)
	}
}

// Whatever sequence numbers events have, and whatever becomes of them, the row of their key can be read again.
func TestLaw5NoNumberMakesARowUnreadable(t *testing.T) {
	t.Parallel()
	numbers := []uint64{0, 1, 2, 3, 1 << 32, maxNumber - 1, maxNumber, maxNumber + 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		number := func() uint64 { return numbers[r.IntN(len(numbers))] + r.Uint64N(2)*r.Uint64N(100) }
		var s State
		for range 100 {
			before, sequence, previous := s, number(), number()
			what := r.IntN(7)
			switch what {
			case 0, 1: // poisoned
				s.Pass(sequence, previous)
				s.MayCome(sequence)
			case 2:
				s.Pass(sequence, previous)
			case 3:
				s.GoPast(sequence)
			case 4:
				s.WaitFor("m", sequence, previous)
			case 5:
				s.Halt("m", "why", sequence)
			case 6:
				s.Wait("m", time.Hour, sequence)
				s.release()
			}
			data, err := json.Marshal(document{Version: version, Fence: 1, TTL: minTTL.Milliseconds(), State: s})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decode(data); err != nil {
				t.Fatalf("seed %d: act %d of event %d after %d makes %+v of %+v: %v", seed, what, sequence, previous, s, before, err)
			}
		}
	}
}

// A source that begins to count anew loses nothing: what may lie between runs when it comes.
func TestACountThatBeginsAnew(t *testing.T) {
	t.Parallel()
	var s State
	s.Pass(3, 0)
	s.Pass(9, 0)
	for n, want := range map[uint64]Place{3: Repeat, 4: Late, 8: Late, 9: Repeat} {
		if got := s.Place(n, 0); got != want {
			t.Errorf("%d: got %v, want %v", n, got, want)
		}
	}
	if got := s.Place(11, 9); got != Next {
		t.Errorf("the next one: got %v", got)
	}
}
