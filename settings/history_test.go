package settings_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

type (
	// The model of what is in force is the number of raises.
	history = storagetest.History[string, int]
	answer  = storagetest.Answer[string, int]
)

func step(raises int, a answer) (next []int) {
	if a.Unknown {
		next = append(next, raises)
	}
	switch {
	case a.In == "raise" && (a.Unknown || a.Out == raises+1):
		next = append(next, raises+1)
	case a.In == "show" && a.Out == raises:
		next = append(next, raises)
	}
	return next
}

// raises is how often the rate was raised, by what is stored.
func raises(c settings.Current) (int, error) {
	var set struct{ Mail struct{ Rate int } }
	err := json.Unmarshal(c.Values, &set)
	return max(0, set.Mail.Rate-10), err
}

// A crowd are the nodes of a simulation. Chance lets them say no.
type crowd struct {
	mu      sync.Mutex
	r       *rand.Rand       // under mu
	agreed  map[int][]string // nodes that said yes, by rate; under mu
	applied map[string][]int // rates, by node; under mu
}

func (x *crowd) join(t *testing.T, s *storage.Store, who string) *settings.Settings[shop] {
	n := node(t, s, settings.Config{Name: who})
	n.Changing(func(_ context.Context, _, to shop) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.r.IntN(10) == 0 {
			return errors.New("not today")
		}
		if !slices.Contains(x.agreed[to.Mail.Rate], who) {
			x.agreed[to.Mail.Rate] = append(x.agreed[to.Mail.Rate], who)
		}
		return nil
	})
	n.Changed(func(_, to shop) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.applied[who] = append(x.applied[who], to.Mail.Rate)
	})
	return n
}

// Nodes with calls that fail and answers that are lost raise one number. All that they are told could be told by one
// register with guarded writes; nobody runs what somebody has not agreed to, nor goes back; and in the end all run the
// same.
func TestTheCurrentDocumentIsARegister(t *testing.T) {
	t.Parallel()
	const clients, turns = 3, 15
	virtual(t, func(t *testing.T, s *storage.Store) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		x := &crowd{r: rand.New(rand.NewPCG(seed, 99)), agreed: map[int][]string{}, applied: map[string][]int{}}
		var (
			h     history
			all   sync.WaitGroup
			nodes []*settings.Settings[shop]
		)
		for i := range uint64(clients) {
			shaky, _ := storagetest.Disturb(s, storagetest.Disturbance{Schedule: storagetest.Seeded(seed+i, map[storagetest.Fault]float64{
				storagetest.FailBefore: 0.02, storagetest.FailAfter: 0.05,
			})})
			nodes = append(nodes, x.join(t, shaky, fmt.Sprint("node ", i)))
		}
		for i, n := range nodes {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				for range turns {
					time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
					h.Record(i, func() []answer { return turn(t, s, n, r) })
				}
			})
		}
		all.Wait()
		time.Sleep(2 * poll)
		must(t, storagetest.CheckHistory(&h, step, t.TempDir()))
		final, err := raises(current(t, s))
		must(t, err)
		for i, n := range nodes {
			if n.Now().Mail.Rate != 10+final {
				t.Errorf("node %d runs rate %d, and %d is in force: %+v", i, n.Now().Mail.Rate, 10+final, n.State())
			}
		}
		if final == 0 {
			t.Error("nothing came into force")
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		for who, rates := range x.applied {
			if !slices.IsSorted(rates) {
				t.Errorf("%s has gone back: %v", who, rates)
			}
			for _, rate := range rates {
				if len(x.agreed[rate]) != clients {
					t.Errorf("%s ran rate %d, to which only %q had agreed", who, rate, x.agreed[rate])
				}
			}
		}
	})
}

// turn lets a client raise the rate, or look at it.
func turn(t *testing.T, s *storage.Store, n *settings.Settings[shop], r *rand.Rand) []answer {
	a := answer{Key: name, In: "show"}
	if r.IntN(2) == 0 {
		c, err := ledger(t, s).Current(t.Context())
		if err == nil {
			a.Out, err = raises(c)
		}
		if err != nil {
			t.Error(err)
		}
		return []answer{a}
	}
	a.In = "raise"
	_, err := n.Propose(t.Context(), ada, func(s *shop) { s.Mail.Rate++; a.Out = s.Mail.Rate - 10 })
	if errors.Is(err, settings.ErrRefused) {
		return nil
	}
	a.Unknown = err != nil
	return []answer{a}
}

// The model refuses what a register must not do.
func TestTheModelRefuses(t *testing.T) {
	t.Parallel()
	for what, calls := range map[string][]answer{
		"a raise that was lost":       {{Key: name, In: "raise", Out: 1}, {Key: name, In: "show"}},
		"a raise that was done twice": {{Key: name, In: "raise", Out: 1}, {Key: name, In: "show", Out: 2}},
		"a raise of an older number":  {{Key: name, In: "raise", Out: 1}, {Key: name, In: "raise", Out: 1}},
	} {
		var h history
		for _, c := range calls {
			h.Record(0, func() []answer { return []answer{c} })
		}
		if storagetest.CheckHistory(&h, step, t.TempDir()) == nil {
			t.Errorf("%s: not noticed", what)
		}
	}
}

var azurite = sync.OnceValues(azuretest.Launch)

// The same on real requests: two nodes agree, and go back.
func TestOnAzure(t *testing.T) {
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azurite, azure.Wipe))
	must(t, err)
	defer func() { _ = s.Close() }()
	a, b := node(t, s, settings.Config{Name: "a", Poll: time.Second}), node(t, s, settings.Config{Name: "b", Poll: time.Second})
	got := make(chan int, 2)
	b.Changed(func(_, to shop) { got <- to.Seats })
	propose(t, a, 60)
	if n := <-got; n != 60 {
		t.Errorf("got %d seats, want 60", n)
	}
	_, err = ledger(t, s).Back(t.Context(), 0, ada)
	must(t, err)
	if n := <-got; n != 40 {
		t.Errorf("got %d seats, want 40", n)
	}
	must(t, a.Close(t.Context()))
	must(t, b.Close(t.Context()))
	if nodes, err := ledger(t, s).Nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("got nodes %+v, %v", nodes, err)
	}
}
