package settings_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const bake = 10 * time.Minute

// A fleet is several nodes, each behind a link of its own.
type fleet struct {
	t     *testing.T
	store *storage.Store
	nodes []*settings.Settings[shop]
	links []*storagetest.Link
}

// newFleet starts nodes whose changes come in stages. They are called node 0, node 1 and so on.
func newFleet(t *testing.T, s *storage.Store, n int, cfg func(i int, c *settings.Config)) *fleet {
	t.Helper()
	f := &fleet{t: t, store: s}
	for i := range n {
		c := settings.Config{Name: fmt.Sprint("node ", i), Stages: settings.InStages(bake, 10, 50, 100)}
		if cfg != nil {
			cfg(i, &c)
		}
		l := storagetest.NewLink(s)
		f.links, f.nodes = append(f.links, l), append(f.nodes, node(t, l.Store, c))
	}
	return f
}

// roll proposes so many seats, and expects a roll-out to begin.
func (f *fleet) roll(by, seatsNow int) int64 {
	f.t.Helper()
	e, err := f.nodes[by].Propose(f.t.Context(), ada, seats(seatsNow))
	must(f.t, err)
	if e.Result != settings.Rolling {
		f.t.Fatalf("got %+v, want a roll-out", e)
	}
	synctest.Wait()
	return e.Version
}

// canaries returns which nodes run a version that is being rolled out.
func (f *fleet) canaries() (all []int) {
	for i, n := range f.nodes {
		if n.State().Staged {
			all = append(all, i)
		}
	}
	return all
}

// others returns a node that isn't among the first canaries.
func (f *fleet) other() int {
	return slices.IndexFunc(f.nodes, func(n *settings.Settings[shop]) bool { return !n.State().Staged })
}

// ended returns the end of a version, and expects a roll-out to have ended so.
func (f *fleet) ended(version int64, want settings.Result) settings.Ending {
	f.t.Helper()
	c := current(f.t, f.store)
	if c.Rollout != nil || len(c.Ended) == 0 || c.Ended[0].Version != version || c.Ended[0].Result != want {
		f.t.Fatalf("got %+v, rollout %+v, want version %d to be %s", c, c.Rollout, version, want)
	}
	return c.Ended[0]
}

// A change that all have agreed to goes from one node to all, and each stage bakes for its time.
func TestStagesBakeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 10, func(i int, c *settings.Config) {
			c.Cache = filepath.Join(folder, fmt.Sprint(i))
			c.Health = func(context.Context) error { return nil }
		})
		v := f.roll(3, 60)
		began := time.Now()
		for stage, want := range []int{1, 5, 10} {
			for range 9 {
				if c := current(t, s); len(f.canaries()) != want || c.Version != 0 || c.Rollout == nil || c.Rollout.Stage != stage || c.Rollout.Baked > time.Since(began)+time.Second {
					t.Fatalf("%v in stage %d: got nodes %v and %+v, want %d nodes", time.Since(began), stage, f.canaries(), c.Rollout, want)
				}
				for i, n := range f.nodes {
					wantSeats(t, 40+20*len(slices.DeleteFunc(f.canaries(), func(c int) bool { return c != i })), n)
					if kept, err := os.ReadFile(filepath.Join(folder, fmt.Sprint(i))); err == nil && strings.Contains(string(kept), "60") {
						t.Fatalf("the cache has %s, which isn't in force", kept)
					}
				}
				time.Sleep(time.Minute)
			}
			for c := current(t, s); c.Rollout != nil && c.Rollout.Stage == stage; c = current(t, s) {
				time.Sleep(time.Second)
			}
			if took := time.Since(began); took > bake+4*poll {
				t.Errorf("stage %d took %v", stage, took)
			}
			began = time.Now()
		}
		f.ended(v, settings.InForce)
		time.Sleep(poll)
		wantSeats(t, 60, f.nodes...)
		if len(f.canaries()) > 0 || f.nodes[0].State().Version != v {
			t.Errorf("got %+v", f.nodes[0].State())
		}
		if kept, err := os.ReadFile(filepath.Join(folder, "0")); err != nil || !strings.Contains(string(kept), "60") {
			t.Errorf("the cache has %s, %v", kept, err)
		}
		e, err := f.nodes[0].Propose(t.Context(), settings.Note{Now: true}, seats(80))
		must(t, err)
		if e.Result != settings.InForce {
			t.Errorf("got %+v", e)
		}
		time.Sleep(time.Second)
		wantSeats(t, 80, f.nodes...)
	})
}

// Law: nothing is in force before every live node agrees, in stages either: no canary runs what the last one may
// refuse.
func TestLawNoCanaryBeforeTheLastVerdict(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 4, nil)
		asked, answer := make(chan struct{}), make(chan error)
		f.nodes[2].Changing(func(context.Context, shop, shop) error { close(asked); return <-answer })
		done := make(chan error, 1)
		go func() { _, err := f.nodes[0].Propose(t.Context(), ada, seats(60)); done <- err }()
		<-asked
		time.Sleep(4 * time.Second)
		wantSeats(t, 40, f.nodes...)
		if c := current(t, s); c.Candidate != 1 || c.Rollout != nil {
			t.Errorf("got %+v", c)
		}
		answer <- errors.New("no")
		wantErr(t, <-done, settings.ErrRefused, "node 2")
		time.Sleep(poll)
		wantSeats(t, 40, f.nodes...)
	})
}

// Law: no step without health. Anything that Health does but return nil takes the change back from all, at once.
func TestLawNoStepWithoutHealth(t *testing.T) {
	t.Parallel()
	var typedNil *storage.Error
	for want, ill := range map[string]func(t *testing.T) error{
		"Health: mails bounce":              func(*testing.T) error { return errors.New("mails bounce") },
		"Health: panic: boo":                func(*testing.T) error { panic("boo") },
		"Goexit":                            func(*testing.T) error { runtime.Goexit(); return nil },
		"Health has not returned within 5s": func(t *testing.T) error { <-t.Context().Done(); return nil },
		"Health: context deadline exceeded": func(*testing.T) error { return context.DeadlineExceeded },
		"Health: a nil *driver.Error":       func(*testing.T) error { return typedNil },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				var sick atomic.Bool
				f := newFleet(t, s, 5, func(_ int, c *settings.Config) {
					c.Health = func(context.Context) error {
						if sick.Load() {
							return ill(t)
						}
						return nil
					}
				})
				v := f.roll(0, 60)
				if len(f.canaries()) != 1 {
					t.Fatalf("got canaries %v", f.canaries())
				}
				canary := f.canaries()[0]
				time.Sleep(bake / 2)
				sick.Store(true)
				time.Sleep(poll + 6*time.Second)
				e := f.ended(v, settings.RolledBack)
				if len(e.Reasons) != 1 || e.Reasons[0].Node != fmt.Sprint("node ", canary) || !strings.Contains(e.Reasons[0].Why, want) {
					t.Errorf("got reasons %+v", e.Reasons)
				}
				wantSeats(t, 40, f.nodes...)
				_, err := ledger(t, s).Await(t.Context(), v)
				wantErr(t, err, settings.ErrRolledBack, want)
				_, err = ledger(t, s).Back(t.Context(), v, ada)
				wantErr(t, err, settings.ErrNever)
				sick.Store(false)
				time.Sleep(bake)
				wantSeats(t, 40, f.nodes...)
			})
		})
	}
}

// Law: no silence is taken for health. A canary that dies within its bake, even at its end, is ill.
func TestLawNoSilenceIsTakenForHealth(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, bake / 2, bake - 15*time.Second, bake - 8*time.Second, bake - 4*time.Second, bake - 2*time.Second, bake - time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				f := newFleet(t, s, 5, nil)
				v := f.roll(0, 60)
				canary := f.canaries()[0]
				for i, n := range f.nodes {
					n.Changed(func(_, to shop) {
						if i != canary && to.Seats == 60 {
							t.Errorf("node %d ran it, too", i)
						}
					})
				}
				time.Sleep(after)
				f.links[canary].Cut()
				time.Sleep(5 * poll)
				e := f.ended(v, settings.RolledBack)
				if e.Reasons[0].Node != fmt.Sprint("node ", canary) || !strings.Contains(e.Reasons[0].Why, "it has died with it") {
					t.Errorf("got %+v", e)
				}
				for i, n := range f.nodes {
					if i != canary {
						wantSeats(t, 40, n)
					}
				}
				wantSeats(t, 60, f.nodes[canary]) // losing the store changes nothing
				f.links[canary].Restore()
				time.Sleep(poll + time.Second)
				wantSeats(t, 40, f.nodes...) // a node that comes late can't go back to the bad one
			})
		})
	}
}

// Law: no silence is taken for health. A canary with too few calls bakes for longer, and the document says why.
func TestLawTooFewCallsBakeLonger(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		var done atomic.Int64
		f := newFleet(t, s, 5, func(_ int, c *settings.Config) {
			c.Stages = settings.InStages(bake, 20, 100)
			c.Work = func() settings.Work { return settings.Work{Done: done.Load()} }
		})
		done.Store(500)
		v := f.roll(0, 60)
		time.Sleep(3 * bake)
		c := current(t, s)
		if r := c.Rollout; r == nil || r.Stage != 0 || r.Baked != bake || r.Why != "the nodes that run it have counted fewer than 100 calls" {
			t.Fatalf("got %+v", c.Rollout)
		}
		done.Add(100)
		time.Sleep(4 * poll)
		if r := current(t, s).Rollout; r == nil || r.Stage != 1 || r.Why != "" {
			t.Fatalf("got %+v", r)
		}
		done.Add(100) // each of five
		e, err := ledger(t, s).Await(t.Context(), v)
		if err != nil || e.Result != settings.InForce {
			t.Errorf("got %+v, %v", e, err)
		}
	})
}

// Canaries whose work fails more often than that of the others, or than their own before, are ill.
func TestACanaryWhoseWorkFailsIsIll(t *testing.T) {
	t.Parallel()
	for want, alone := range map[string]bool{"calls of the others": false, "600 of 1200 calls failed, and 0 of 1000 calls before": true} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				n := 5
				if alone {
					n = 1
				}
				var mu sync.Mutex
				var work [5]settings.Work
				if alone {
					work[0].Done = 1000
				}
				f := newFleet(t, s, n, func(i int, c *settings.Config) {
					c.Work = func() settings.Work {
						mu.Lock()
						defer mu.Unlock()
						return work[i]
					}
				})
				v := f.roll(0, 60)
				time.Sleep(2 * time.Minute)
				mu.Lock()
				for i := range n {
					if work[i].Done += 1200; f.nodes[i].State().Staged {
						work[i].Done, work[i].Failed = work[i].Done-600, 600
					}
				}
				mu.Unlock()
				time.Sleep(2*poll + time.Second)
				if e := f.ended(v, settings.RolledBack); !strings.Contains(e.Reasons[0].Why, want) {
					t.Errorf("got %+v, want %q", e, want)
				}
				wantSeats(t, 40, f.nodes...)
			})
		})
	}
}

// Law: no roll-back waits for anybody: neither for a node that hangs nor for one that can't reach the store.
func TestLawNoRollBackWaitsForAnybody(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		var sick atomic.Bool
		f := newFleet(t, s, 5, func(_ int, c *settings.Config) {
			c.Health = func(context.Context) error {
				if sick.Load() {
					return errors.New("ill")
				}
				return nil
			}
		})
		for _, n := range f.nodes {
			n.Changed(func(_, to shop) {
				if to.Seats == 40 {
					<-t.Context().Done()
				}
			})
		}
		v := f.roll(0, 60)
		time.Sleep(2 * bake) // five or three run it
		ran := f.canaries()
		if len(ran) < 3 {
			t.Fatalf("got canaries %v", ran)
		}
		f.links[f.other()].Cut()
		sick.Store(true)
		began := time.Now()
		for current(t, s).Rollout != nil {
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		if took := time.Since(began); took > poll+2*time.Second {
			t.Errorf("it took %v", took)
		}
		f.ended(v, settings.RolledBack)
		wantSeats(t, 40, f.nodes...)
	})
}
