// Package faulttest runs the processes of a program under random faults, in virtual time: the part that does not know
// the program. Package proof/simulation runs a domain that tries everything, package millracetest a user's own program.
//
// A [World] is one run: a store, a [Plan] that follows from a seed, a history for people, and processes. A [Process]
// has a memory of its own and sees the store through its own faults. [World.Keep] keeps a worker running: when a
// process ends, another one takes its place. [World.EndFaults] ends all faults.
//
// The seed decides which calls fail and how. It doesn't decide the order in which Go runs the goroutines.
package faulttest

import (
	"math/rand/v2"
	"time"

	"github.com/millrace-go/millrace/storage/storagetest"
)

// Plan is the part of a run that the seed decides, whatever the program.
type Plan struct {
	Seed       uint64
	Plain      bool          // the store takes the steps of a unit of work one by one
	Workers    int           // processes at a time
	Consumers  int           // workers that consume a queue at a time; 0 is all
	Visibility time.Duration // of the workers
	Delay      time.Duration // of late calls
	Late       time.Duration // until the first worker starts: a backlog waits for it
	Stops      bool          // processes are stopped now and then
	Chances    map[storagetest.Fault]float64

	// Schedule is used instead of Chances, for the first worker alone.
	Schedule func(storagetest.Op) storagetest.Fault
}

// Draw makes the plan of a seed.
func Draw(seed uint64, r *rand.Rand) Plan {
	maybe := func(chance float64) bool { return r.Float64() < chance }
	p := Plan{
		Seed: seed, Plain: seed%2 == 0, Workers: 1 + r.IntN(3), Stops: maybe(0.5),
		Visibility: []time.Duration{30 * time.Second, 15 * time.Second}[r.IntN(2)],
		Delay:      time.Duration(1+r.IntN(60)) * time.Second,
		Chances:    map[storagetest.Fault]float64{},
	}
	if maybe(0.2) {
		p.Late = time.Duration(r.IntN(300)) * time.Second
	}
	if maybe(0.3) {
		p.Consumers = 1 + r.IntN(2)
	}
	for _, f := range storagetest.Faults() {
		if !maybe(0.4) {
			continue
		}
		p.Chances[f] = r.Float64() * 0.05
		if crashes(f) {
			p.Chances[f] /= 10 // otherwise no process lives long enough to do anything
		}
	}
	return p
}

func crashes(f storagetest.Fault) bool {
	return f == storagetest.CrashBefore || f == storagetest.CrashAfter
}
