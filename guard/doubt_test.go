package guard_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/millrace-go/millrace/worker"
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

// costs is what an outage costs: the calls until all breakers are open, and those of ten minutes.
type costs struct{ opening, all int }

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

// Of an outage of ten minutes, the calls of many processes are hardly more than those of one: each tells the others
// early that its calls fail. Without rings they learn of it when calls of their own fail.
func TestLaw1AnOutageCostsFewCallsInManyProcesses(t *testing.T) {
	for _, c := range []struct {
		processes, most int
		rate            float64 // of jobs, a second
		rings           bool
	}{{1, 50, 20, true}, {2, 60, 20, true}, {8, 60, 4, true}, {8, 60, 100, true}, {8, 110, 20, false}} {
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
					t.Logf("%d calls until all breakers are open, %d in all", got.opening, got.all)
					if got.opening < 0 || got.all > c.most {
						t.Errorf("got %+v, want at most %d calls in all", got, c.most)
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

// Failures that several processes tell of are counted together.
func TestLaw1FailuresOfAllProcessesCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		all := together(t, worldtest.OpenStore(t, worldtest.Virtual), 3)
		all[0].fail(t, 0, 11)
		all[1].fail(t, 20, 2)
		all[2].fail(t, 30, 6)
		for i, m := range all {
			worldtest.Want(t, fmt.Sprintf("process %d open after 19 failures", i), m.Open(), false)
		}
		all[2].fail(t, 40, 1)
		time.Sleep(time.Second)
		for i, m := range all {
			if !m.Status().All {
				t.Errorf("after 20 failures of three processes, the breaker of process %d is %+v", i, m.Status())
			}
		}
	})
}

// One process can't reach the service: first it doubts, then it is ill. The others, whose calls are done, count none of
// its failures, although many calls of theirs fail afterwards.
func TestLaw4OneIllProcessInDoubtStopsNoOther(t *testing.T) {
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

// Few messages that always fail open no breaker, although all processes have tried them, and tell of it.
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

// A service comes and goes in one process of four, for an hour. That is written a few times, not each time. When it is
// over, nothing is asked any more.
func TestLaw5ADoubtThatPassesCostsFewRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls storagetest.Calls
		all := together(t, storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook), 4)
		before, written := calls.Count("get blob", "put blob"), calls.Count("put blob")
		for range 720 {
			all[0].fail(t, 0, 5)
			worldtest.WantErr(t, all[0].Do(handling(t, id(100), 1), ends(nil)), nil)
			time.Sleep(5*time.Second - 100*time.Millisecond)
		}
		asked := calls.Count("get blob", "put blob") - before
		t.Logf("%d requests, of which %d writes", asked, calls.Count("put blob")-written)
		if written := calls.Count("put blob") - written; written < 2 || written > 40 || asked > 250 {
			t.Errorf("%d requests in an hour, of which %d writes; want at most 250, and 2 to 40", asked, written)
		}
		before = calls.Count()
		time.Sleep(time.Hour)
		worldtest.Want(t, "requests of an idle hour", calls.Count()-before, 0)
		for i, m := range all {
			worldtest.Want(t, fmt.Sprintf("process %d open", i), m.Open(), false)
		}
	})
}

// The doubt of a process that has died counts for a minute at most, and the next one that writes removes it.
func TestLaw7ADoubtOfADeadProcessIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		link := storagetest.NewLink(s)
		dead, live := together(t, link.Store, 1)[0], together(t, s, 1)[0]
		dead.fail(t, 0, 15)
		link.Cut()
		time.Sleep(2 * time.Minute)
		live.fail(t, 20, 19)
		worldtest.Want(t, "open after 19 failures", live.Open(), false)
		blob, err := s.Blobs("guards").Get(t.Context(), "smtp", "")
		var doc struct{ Doubt map[string]any }
		if err = errors.Join(err, json.Unmarshal(blob.Body, &doc)); err != nil || len(doc.Doubt) != 1 {
			t.Errorf("the document names %d processes in doubt: %s, %v; want the live one", len(doc.Doubt), blob.Body, err)
		}
	})
}

// A process that begins to doubt takes one message at a time, for a second at most, and until a call is done.
func TestLaw7ADoubtLimitsCallsForASecond(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		doubt := func() {
			for n := range 5 {
				_ = g.Do(handling(t, id(n), 1), ends(errDown))
			}
			worldtest.Want(t, "limits in doubt", limits(t, g), worker.Limits{Concurrency: 1, MaxInHand: 1})
		}
		doubt()
		limiter, err := g.Limiter(t.Context(), worker.Consumer{})
		if err != nil {
			t.Fatal(err)
		}
		_, changed := limiter.Now()
		begin := time.Now()
		<-changed
		worldtest.Want(t, "time until all calls are let through", time.Since(begin), time.Second)
		worldtest.Want(t, "limits then", limits(t, g), worker.Limits{})
		worldtest.WantErr(t, g.Do(handling(t, id(100), 1), ends(nil)), nil)
		doubt()
		worldtest.WantErr(t, g.Do(handling(t, id(100), 1), ends(nil)), nil)
		worldtest.Want(t, "limits when a call is done", limits(t, g), worker.Limits{})
	})
}

// Law 7: a process that told of failures and has no calls any more takes that back, also without rings.
func TestLaw7ADoubtOfAnIdleProcessIsTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		idle := together(t, storagetest.Plain(s), 1)[0]
		idle.fail(t, 0, 15)
		time.Sleep(3 * time.Minute)
		if blob, err := s.Blobs("guards").Get(t.Context(), "smtp", ""); err != nil || strings.Contains(string(blob.Body), "doubt") {
			t.Errorf("the document says %s, %v", blob.Body, err)
		}
		worldtest.Want(t, "open", idle.Open(), false)
	})
}
