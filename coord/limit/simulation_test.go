package limit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Processes with their own work share 100 calls a second. The work is 60 to 150 % of that, and moves each minute among
// them. Two calls of the store in 50 fail, and processes are killed and started. In no window are there more calls
// than the limit allows, and it is used while there is work: less in a run whose work moves to few processes and little
// of which is a backlog.
func TestLaw3CallsKeepWithinTheLimit(t *testing.T) {
	used, runs := 0.0, 0.0
	for seed := range storagetest.Seeds(t, 7, 1) {
		for processes, minutes := range map[int]int{2: 6, 8: 6, 32: 3} {
			t.Run(fmt.Sprintf("%d, seed %d", processes, seed), func(t *testing.T) {
				used += callsKeepWithin(t, seed, processes, minutes)
				runs++
			})
		}
	}
	if runs >= 6 && used/runs < 0.8 {
		t.Errorf("%.1f %% of the limits were used by %.0f runs", 100*used/runs, runs)
	}
}

// callsKeepWithin returns which part of the limit was used while there was a backlog.
func callsKeepWithin(t *testing.T, seed uint64, processes, minutes int) (share float64) {
	t.Helper()
	inWorld(t, func(t *testing.T, s *storage.Store) {
		const limit = 100
		f := &fleet{t: t, limit: limit, store: s, r: rand.New(rand.NewPCG(seed, uint64(processes))), odds: 50}
		for range processes {
			f.start()
		}
		begin := time.Now()
		parts, demand := make([]float64, processes), 0.0
		var backlogged, used, before int
		for second := range minutes * 60 {
			if second%60 == 0 {
				demand = limit * (0.6 + 0.9*f.r.Float64())
				sum := 0.0
				for i := range parts {
					parts[i] = f.r.ExpFloat64()
					sum += parts[i]
				}
				for i := range parts {
					parts[i] /= sum
				}
			}
			if second%120 == 45 {
				f.kill(f.r.IntN(len(f.live) / 2))
				f.start()
			}
			for i, p := range f.live {
				p.give(int(demand*parts[i] + f.r.Float64()))
			}
			much := f.backlog() >= 2*limit
			for range 10 {
				time.Sleep(100 * time.Millisecond)
				if sum := f.sum(); sum > limit+1e-6 { // floats are not exact
					t.Errorf("the shares in force are %v after %v", sum, time.Since(begin))
				}
			}
			f.mu.Lock()
			n := len(f.calls)
			f.mu.Unlock()
			if much && second > 5 {
				backlogged++
				used += n - before
			}
			before = n
		}
		t.Logf("%.1f requests a minute and process", float64(f.asked.Load())/float64(minutes*processes))
		f.stop()
		burst := 0.2*limit + float64(processes)
		for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
			most := mostIn(f.calls, window)
			t.Logf("at most %d calls in %v", most, window)
			if float64(most) > limit*window.Seconds()+burst {
				t.Errorf("%d calls in %v", most, window)
			}
		}
		share = float64(used) / float64(limit*backlogged)
		t.Logf("%.1f %% of the limit used in %d seconds with a backlog", 100*share, backlogged)
		if share < 0.6 {
			t.Errorf("only %.1f %% of the limit were used", 100*share)
		}
	})
	return share
}

// mostIn returns the most calls in any window of that length.
func mostIn(calls []time.Time, window time.Duration) (most int) {
	first := 0
	for last := range calls {
		for calls[last].Sub(calls[first]) >= window {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
