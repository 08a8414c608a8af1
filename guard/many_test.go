package guard_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// far is a store whose documents and rings take some time.
func far(s *storage.Store, random *rand.Rand) *storage.Store {
	var mu sync.Mutex
	pace := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(1+random.IntN(10)) * time.Millisecond
	}
	return storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
		if strings.HasSuffix(op.Name, "blob") || op.Name == "publish" {
			if err := worldtest.Pause(ctx, pace()); err != nil {
				return err
			}
		}
		return do()
	})
}

// costs are the calls of an outage: of each process until all breakers are open, and of all processes afterwards.
type costs struct {
	opening []int // nil: a breaker stays closed
	after   int
}

// outageOf lets the service of some processes be away for ten minutes, while jobs come.
func outageOf(t *testing.T, f *fleet, processes int, random *rand.Rand, perSecond float64) costs {
	t.Helper()
	var down error
	f.fails = &down
	for range processes {
		f.start(guard.Config{Logger: slog.New(f.log)})
	}
	trickle := func(d time.Duration, perSecond float64) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			f.send(1)
			time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Second) / perSecond))
		}
	}
	trickle(15*time.Second, perSecond)
	f.mu.Lock()
	before := slices.Clone(f.of)
	down = errDown
	f.mu.Unlock()
	count := func() (each []int, all int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, n := range f.of {
			each, all = append(each, n-before[i]), all+n-before[i]
		}
		return each, all
	}
	c, until := costs{}, 0
	begin := time.Now()
	for time.Since(begin) < 10*time.Minute {
		if c.opening == nil {
			trickle(100*time.Millisecond, perSecond)
		} else {
			trickle(time.Second, 1)
		}
		if c.opening == nil && !slices.ContainsFunc(f.guards, func(g *guard.Guard) bool { return !g.Open() }) {
			c.opening, until = count()
		}
	}
	_, all := count()
	c.after = all - until
	f.mu.Lock()
	down = nil
	f.mu.Unlock()
	return c
}

// In an outage of ten minutes, each process makes at most 25 calls until the breakers are open: 20 that fail, and those
// that are under way by then. After that there is one probe at a time in the fleet, which is 35 calls at most, with
// rings and without.
func TestLaw1AnOutageCostsFewCallsInManyProcesses(t *testing.T) {
	parttest.InTurn(t)
	for _, c := range []struct {
		processes int
		rate      float64 // of jobs, a second
		rings     bool
	}{{1, 20, true}, {2, 20, true}, {8, 4, true}, {8, 100, true}, {8, 20, false}} {
		for seed := range storagetest.Seeds(t, 1, 2) {
			t.Run(fmt.Sprintf("%d processes, %v jobs a second, rings %v, seed %d", c.processes, c.rate, c.rings, seed), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := worldtest.OpenStore(t, worldtest.Virtual)
					if !c.rings {
						s = storagetest.Plain(s)
					}
					s = far(s, rand.New(rand.NewPCG(seed, 2)))
					f := &fleet{t: t, store: s, log: worldtest.NewLog(), took: 10 * time.Millisecond}
					got := outageOf(t, f, c.processes, rand.New(rand.NewPCG(seed, 1)), c.rate)
					t.Logf("%d calls of each process until all breakers are open, %d afterwards", got.opening, got.after)
					if got.opening == nil || slices.Max(got.opening) > 25 || got.after > 35 {
						t.Errorf("got %+v, want at most 25 calls of each process, and 35 afterwards", got)
					}
					time.Sleep(2 * time.Minute)
					worldtest.Want(t, "poisoned jobs", len(f.worlds[0].Poisoned("jobs")), 0)
					for _, stop := range f.stop {
						worldtest.WantErr(t, stop(), nil)
					}
				})
			})
		}
	}
}

// fail lets calls for n messages fail, one after the other.
func (m member) fail(t *testing.T, from, n int) {
	t.Helper()
	for i := range n {
		_ = m.Do(handling(t, id(from+i), 1), ends(errDown))
		time.Sleep(20 * time.Millisecond) // the others hear of it
	}
}

// together lets processes join a store.
func together(t *testing.T, s *storage.Store, n int) (all []member) {
	t.Helper()
	for range n {
		m := join(t, s)
		t.Cleanup(func() { m.leave(t) })
		worldtest.WantErr(t, m.Do(handling(t, id(1000), 1), ends(nil)), nil)
		all = append(all, m)
	}
	return all
}

// Each process counts its own calls alone. A process whose breaker isn't open by its own calls follows those that are,
// if more processes have opened theirs than say that their calls are done.
func TestLaw4EachProcessCountsItsOwnCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		all := together(t, worldtest.OpenStore(t, worldtest.Virtual), 3)
		for i, m := range all {
			m.fail(t, 20*i, 18)
		}
		for i, m := range all {
			worldtest.Want(t, fmt.Sprintf("process %d open after 18 failures of each process", i), m.Open(), false)
		}
		time.Sleep(10 * time.Second) // no call was done for so long
		all[0].fail(t, 100, 2)
		time.Sleep(2 * time.Second)
		for i, m := range all {
			if !m.Status().All {
				t.Errorf("after 20 failures of one process, and no call that is done, the breaker of process %d is %+v", i, m.Status())
			}
		}
	})
}

// One process can't reach the service. The others, whose calls are done, count none of its failures, although many
// calls of theirs fail afterwards.
func TestLaw4OneProcessInTroubleStopsNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		all := together(t, worldtest.OpenStore(t, worldtest.Virtual), 3)
		ill, others := all[0], all[1:]
		done := func() {
			for _, m := range others {
				worldtest.WantErr(t, m.Do(handling(t, id(1000), 1), ends(nil)), nil)
			}
		}
		for n := range 20 {
			ill.fail(t, n, 1)
			done()
		}
		worldtest.Want(t, "open after 20 failures", ill.Open(), true)
		others[0].fail(t, 100, 15)
		for i, m := range others {
			worldtest.Want(t, fmt.Sprintf("another process, %d, open", i), m.Open(), false)
		}
		done()
		for n := range 100 { // one of five calls fails
			if others[1].fail(t, 200+n, 1); n%3 == 0 {
				done()
			}
			done()
			time.Sleep(time.Second)
			worldtest.Want(t, "open while calls are done", others[0].Open() || others[1].Open(), false)
		}
	})
}

// Few messages that always fail open no breaker, although all processes have tried them.
func TestLaw3FewMessagesOfManyProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		all := together(t, worldtest.OpenStore(t, worldtest.Virtual), 8)
		bad := []string{id(1), id(2), id(3), id(4)}
		for n := range 20 {
			for i, m := range all {
				_ = m.Do(handling(t, bad[n%4], 1), ends(errDown))
				time.Sleep(20 * time.Millisecond)
				worldtest.Want(t, fmt.Sprintf("process %d open", i), m.Open(), false)
			}
		}
	})
}

// A service comes and goes in one process of four, for an hour, and no breaker opens. Nothing is written, and nothing
// is asked of the store where it rings.
func TestLaw5AServiceThatComesAndGoesCostsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls storagetest.Calls
		all := together(t, storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook), 4)
		time.Sleep(time.Second)
		before := calls.Count("get blob", "put blob")
		for range 720 {
			all[0].fail(t, 0, 5)
			worldtest.WantErr(t, all[0].Do(handling(t, id(100), 1), ends(nil)), nil)
			time.Sleep(5*time.Second - 100*time.Millisecond)
		}
		worldtest.Want(t, "requests in an hour", calls.Count("get blob", "put blob")-before, 0)
		for i, m := range all {
			worldtest.Want(t, fmt.Sprintf("process %d open", i), m.Open(), false)
		}
	})
}
