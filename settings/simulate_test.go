package settings_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A trial run is a program of several nodes, some of which are cut off, die or come late, on stores that fail. Each
// change sets the rate to a number that nobody used before. With each third one all nodes are ill.
type trialRun struct {
	t     *testing.T
	store *storage.Store
	stop  chan struct{}

	mu      sync.Mutex // guards what follows
	r       *rand.Rand
	rate    int
	steady  []string                   // nodes that were there from the beginning and are never cut off
	agreed  map[int]map[string]bool    // by rate and node
	applied map[string][]applied       // by node
	nodes   []*settings.Settings[shop] // all that live at the end
	roll    map[settings.Result]int    // endings
}

type applied struct {
	rate int
	at   time.Time
}

var simulated = settings.InStages(2*time.Minute, 40, 100)

const simPoll = 10 * time.Second

func isSick(rate int) bool { return rate%3 == 0 }

// join starts a node.
func (x *trialRun) join(who string, s *storage.Store, seed uint64) *settings.Settings[shop] {
	shaky, _ := storagetest.Disturb(s, storagetest.Disturbance{Schedule: storagetest.Seeded(seed, map[storagetest.Fault]float64{
		storagetest.FailBefore: 0.01, storagetest.FailAfter: 0.02,
	})})
	var n *settings.Settings[shop]
	ready := make(chan struct{})
	n, err := settings.Open(x.t.Context(), shaky, name, defaults(), settings.Config{
		Name: who, Poll: simPoll, Stages: simulated,
		Health: func(context.Context) error {
			if <-ready; isSick(n.Now().Mail.Rate) {
				return errors.New("ill")
			}
			return nil
		},
	})
	if err != nil {
		return nil // the store failed just then
	}
	close(ready)
	n.Changing(func(_ context.Context, _, to shop) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.r.IntN(20) == 0 {
			return errors.New("not today")
		}
		if x.agreed[to.Mail.Rate] == nil {
			x.agreed[to.Mail.Rate] = map[string]bool{}
		}
		x.agreed[to.Mail.Rate][who] = true
		return nil
	})
	n.Changed(func(_, to shop) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.applied[who] = append(x.applied[who], applied{to.Mail.Rate, time.Now()})
		for _, other := range x.steady {
			if to.Mail.Rate > 10 && !x.agreed[to.Mail.Rate][other] {
				x.t.Errorf("law: nothing is in force before every live node agrees: %s ran rate %d, to which %s had not agreed", who, to.Mail.Rate, other)
			}
		}
	})
	return n
}

// act lets an operator or a node do something, again and again.
func (x *trialRun) act(proposers []*settings.Settings[shop]) {
	l := ledger(x.t, x.store)
	for {
		x.mu.Lock()
		pause, what, by := time.Duration(x.r.IntN(240))*time.Second, x.r.IntN(10), proposers[x.r.IntN(len(proposers))]
		x.rate++
		rate := x.rate
		x.mu.Unlock()
		select {
		case <-x.stop:
			return
		case <-time.After(pause):
		}
		ctx, cancel := context.WithTimeout(x.t.Context(), 2*time.Minute)
		if what == 0 {
			_, _ = l.Back(ctx, -1, ada)
		} else {
			_, _ = by.Propose(ctx, ada, func(s *shop) { s.Mail.Rate = 100 + rate })
		}
		cancel()
	}
}

// disturb cuts a node off and lets it come back, or die, while others come late.
func (x *trialRun) disturb(seed uint64) {
	for i := uint64(0); ; i++ {
		link := storagetest.NewLink(x.store)
		who := fmt.Sprint("late ", i)
		n := x.join(who, link.Store, seed+100+i)
		x.mu.Lock()
		stays, away, dies := time.Duration(x.r.IntN(900))*time.Second, time.Duration(x.r.IntN(60))*time.Second, x.r.IntN(2) == 0
		x.mu.Unlock()
		for _, pause := range []time.Duration{stays, away, stays / 2} {
			select {
			case <-x.stop:
				link.Restore()
				if n != nil {
					x.mu.Lock()
					x.nodes = append(x.nodes, n)
					x.mu.Unlock()
				}
				return
			case <-time.After(pause):
			}
			if pause == stays {
				link.Cut()
			} else if !dies {
				link.Restore()
			}
		}
		if n == nil {
			continue
		}
		if dies {
			link.Cut()
		}
		_ = n.Close(x.t.Context())
	}
}

// audit checks the laws that only the whole tells.
func (x *trialRun) audit() {
	c := current(x.t, x.store)
	for _, e := range c.Ended {
		v, err := ledger(x.t, x.store).Version(x.t.Context(), e.Version)
		must(x.t, err)
		var rate int
		for _, ch := range v.Changes {
			if _, err := fmt.Sscan(string(ch.To), &rate); err != nil {
				rate = 0 // the default
			}
		}
		x.roll[e.Result]++
		if e.Result == settings.InForce && v.BackTo == nil {
			if took := e.At.Sub(v.At); took < 4*time.Minute || isSick(rate) {
				x.t.Errorf("law: no step without health: rate %d came into force after %v", rate, took)
			}
		}
		if e.Result != settings.RolledBack && e.Result != settings.Refused && e.Result != settings.Dropped {
			continue
		}
		for who, all := range x.applied {
			if i := slices.IndexFunc(all, func(a applied) bool { return a.rate == rate && a.at.After(e.At.Add(2*simPoll)) }); i >= 0 {
				x.t.Errorf("law: after a roll-back nobody applies that candidate again: %s ran rate %d %v after it was %s", who, rate, all[i].at.Sub(e.At), e.Result)
			}
		}
	}
	for _, n := range x.nodes {
		if st := n.State(); st.Version != c.Version || st.Fault != "" {
			x.t.Errorf("law: nodes run the version in force: one runs %+v, and %d is", st, c.Version)
		}
	}
}

// Random changes on random faults keep the laws of roll-outs.
func TestLawsOfRollOutsUnderRandomFaults(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	for seed := range storagetest.Seeds(t, rand.Uint64(), 2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				x := &trialRun{t: t, store: s, stop: make(chan struct{}), r: rand.New(rand.NewPCG(seed, 1)), agreed: map[int]map[string]bool{}, applied: map[string][]applied{}, roll: map[settings.Result]int{}}
				for i := range uint64(3) {
					who := fmt.Sprint("steady ", i)
					n := x.join(who, s, seed+i)
					for n == nil {
						n = x.join(who, s, seed+i+10)
					}
					x.mu.Lock()
					x.steady, x.nodes = append(x.steady, who), append(x.nodes, n)
					x.mu.Unlock()
				}
				var all sync.WaitGroup
				proposers := slices.Clone(x.nodes)
				all.Go(func() { x.act(proposers) })
				all.Go(func() { x.disturb(seed) })
				time.Sleep(2 * time.Hour)
				close(x.stop)
				all.Wait()
				for range 100 { // what goes on ends, and then all nodes look
					if current(t, s).Candidate == 0 {
						break
					}
					time.Sleep(time.Minute)
				}
				time.Sleep(10 * simPoll)
				x.mu.Lock()
				defer x.mu.Unlock()
				x.audit()
				t.Logf("%v", x.roll)
				for _, n := range x.nodes {
					_ = n.Close(t.Context())
				}
			})
		})
	}
}
