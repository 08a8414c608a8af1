package gate_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// weather is bad for one process. late counts the writes that are still to come.
func weather(s *storage.Store, r *rand.Rand, late *sync.WaitGroup) *storage.Store {
	return agreetest.Weather{Odds: 10, Slow: 500 * time.Millisecond, Late: 20 * time.Second}.Over(s, r, late)
}

// Processes come and wait, in rounds, in bad weather. In each round one opens the gate, now or at a moment; all go, and
// none before that. Then it is closed.
func TestInAnyWeather(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				var late sync.WaitGroup
				r := rand.New(rand.NewPCG(seed, 0))
				process := func(n uint64) *gate.Gate {
					return gate.At(weather(s, rand.New(rand.NewPCG(seed, n)), &late), name)
				}
				operator := process(1)
				for round := range uint64(4) {
					var w waiters
					for i := range uint64(6) {
						after, g := time.Duration(r.IntN(20_000))*time.Millisecond, process(100*round+i+2)
						w.all.Go(func() {
							time.Sleep(after)
							w.wait(t, g)
						})
					}
					time.Sleep(time.Duration(r.IntN(30_000)) * time.Millisecond)
					first := time.Now()
					if r.IntN(2) == 0 {
						first = first.Add(time.Duration(r.IntN(60_000)) * time.Millisecond)
						insist(t, func() error { return operator.OpenAt(t.Context(), first, gate.Note{}) })
						time.Sleep(time.Until(first))
					} else {
						insist(t, func() error { return operator.Open(t.Context(), gate.Note{}) })
					}
					w.want(t, first, time.Now().Add(5*time.Minute))
					late.Wait()
					insist(t, func() error { return operator.Close(t.Context(), gate.Note{}) })
					late.Wait()
					if st := stateOf(t, gate.At(s, name)); st.Open || st.Openings != int64(round+1) {
						t.Fatalf("after round %d: %+v", round, st)
					}
				}
			})
		})
	}
}

// insist repeats a change until it succeeds. The gate may be as it shall be before.
func insist(t *testing.T, change func() error) {
	t.Helper()
	for range 100 {
		if change() == nil {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal("a change failed 100 times")
}
