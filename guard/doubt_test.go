package guard_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
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
		if strings.HasSuffix(op.Name, "blob") || op.Name == "tell" {
			if err := worldtest.Pause(ctx, pace()); err != nil {
				return err
			}
		}
		return do()
	})
}

// costs is what an outage costs: the calls until all breakers are open, and those of ten minutes.
type costs struct{ opening, all int }

// outageOf lets a service of some processes be away for ten minutes, while jobs come.
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
	before := len(f.calls)
	down = errDown
	f.mu.Unlock()
	count := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.calls) - before
	}
	c := costs{opening: -1}
	begin := time.Now()
	for time.Since(begin) < 10*time.Minute {
		if c.opening < 0 {
			trickle(100*time.Millisecond, perSecond)
		} else {
			trickle(time.Second, 1)
		}
		open := 0
		for _, g := range f.guards {
			if g.Open() {
				open++
			}
		}
		if c.opening < 0 && open == processes {
			c.opening = count()
		}
	}
	c.all = count()
	f.mu.Lock()
	down = nil
	f.mu.Unlock()
	return c
}

func TestLaw1AnOutageCostsFewCallsInManyProcesses(t *testing.T) {
	for _, rings := range []bool{true, false} {
		for _, rate := range []float64{4, 100} {
			for _, processes := range []int{1, 2, 8, 32} {
				for seed := range storagetest.Seeds(t, 1, 2) {
					t.Run(fmt.Sprintf("rings=%v/%v per second/%d/%d", rings, rate, processes, seed), func(t *testing.T) {
						inBubble(t, func(t *testing.T) {
							random := rand.New(rand.NewPCG(seed, 1))
							s := worldtest.OpenStore(t, worldtest.Virtual)
							if !rings {
								s = storagetest.Plain(s)
							}
							f := &fleet{t: t, store: far(s, rand.New(rand.NewPCG(seed, 2))), log: worldtest.NewLog(), took: 10 * time.Millisecond}
							c := outageOf(t, f, processes, random, rate)
							fmt.Printf("RESULT rings=%v rate=%v n=%d seed=%d opening=%d all=%d warn=%d\n", rings, rate, processes, seed, c.opening, c.all, f.log.Count("WARN can't agree"))
							time.Sleep(2 * time.Minute)
							for _, stop := range f.stop {
								worldtest.WantErr(t, stop(), nil)
							}
						})
					})
				}
			}
		}
	}
}
