package millracetest

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/internal/worldtest"
)

// These are the seeds that run where nobody says how many.
const (
	ordinarily = 12
	inShort    = 3 // with go test -short, or with the race detector
)

// Simulate runs a program under random faults, once for each seed, and checks the laws; see the package comment.
// Without seeds it runs those from 1 to 12, or to 3 with go test -short or the race detector, with which each takes
// some ten times as long. In the environment, MILLRACE_SEEDS says how many to run instead, and MILLRACE_SEED names the
// only one to run, with its whole history. run is called at the same time for several seeds.
func Simulate(t *testing.T, run func(t *testing.T, sim *Sim), seeds ...uint64) {
	t.Helper()
	seeds, one := choose(t, seeds)
	var failed atomic.Bool
	name := t.Name()
	t.Run("seed", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				if failed.Load() {
					t.Skip("another seed has failed")
				}
				var s *Sim
				defer func() { // also when the test ends at once
					failed.Store(failed.Load() || t.Failed() || s != nil && len(s.evidence.found) > 0)
					s.report(t, name, one)
				}()
				simulate(t, &s, seed, run)
			})
		}
	})
}

// choose returns the seeds to run. one says that the environment asks for a single one.
func choose(t *testing.T, seeds []uint64) (_ []uint64, one bool) {
	t.Helper()
	number := func(name string) (uint64, bool) {
		text := os.Getenv(name)
		if text == "" {
			return 0, false
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("millracetest: %s in the environment: %v", name, err)
		}
		return n, true
	}
	if seed, ok := number("MILLRACE_SEED"); ok {
		return []uint64{seed}, true
	}
	many, asked := number("MILLRACE_SEEDS")
	if len(seeds) > 0 && !asked {
		return seeds, false
	}
	switch {
	case asked:
	case testing.Short() || worldtest.RaceDetector:
		many = inShort
	default:
		many = ordinarily
	}
	seeds = nil
	for n := range many {
		seeds = append(seeds, n+1)
	}
	return seeds, false
}

// simulate runs one seed. It sets s at the beginning.
func simulate(t *testing.T, s **Sim, seed uint64, run func(t *testing.T, sim *Sim)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t, seed)
		*s = sim
		defer sim.end()
		run(t, sim)
		sim.Settle()
	})
	synctest.Test(t, func(t *testing.T) { newReplay(t, *s).judge() })
}

// report fails the test for each finding, and tells how the run came to it and how to run it again.
func (s *Sim) report(t *testing.T, test string, all bool) {
	t.Helper()
	if s == nil || len(s.evidence.found) == 0 && !t.Failed() && !all {
		return
	}
	most := 300
	if all {
		most = 0
	}
	t.Logf("history of seed %d:\n%s", s.Seed, s.world.History(most))
	for _, f := range s.evidence.found {
		t.Error(f)
	}
	if t.Failed() {
		t.Logf("again, with the whole history: MILLRACE_SEED=%d go test -run '^%s$'", s.Seed, test)
	}
}
