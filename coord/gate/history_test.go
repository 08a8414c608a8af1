package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A register is a gate as the model sees it.
type register struct {
	open, announced bool
	epoch           int64
}

// changed is the register after a change.
func (r register) changed(open, announced bool) register {
	return register{open: open, announced: announced, epoch: r.epoch + 1}
}

func (r register) opened() register {
	if r.open {
		return r
	}
	return r.changed(true, false)
}

// after returns what a call that took effect makes of the register; none if it can't have answered so. Time is not in
// the model: the moment of an announcement may come before any call.
func (r register) after(a storagetest.Answer[string, register]) []register {
	switch a.In {
	case "open":
		return []register{r.opened()}
	case "close":
		if r.epoch > 0 && !r.open && !r.announced {
			return []register{r}
		}
		return []register{r.changed(false, false)}
	case "announce":
		next := []register{r.opened()} // the moment had passed
		if !r.open {
			next = append(next, r.changed(false, true))
		}
		return next
	case "announce, but it is open", "wait":
		if r.open {
			return []register{r}
		}
	case "state":
		if r == a.Out {
			return []register{r}
		}
	}
	return nil
}

func step(r register, a storagetest.Answer[string, register]) (next []register) {
	before := []register{r}
	if r.announced {
		before = append(before, r.opened())
	}
	if a.Unknown {
		next = append(next, before...)
	}
	for _, b := range before {
		next = append(next, b.after(a)...)
	}
	return next
}

type history = storagetest.History[string, register]

// play lets one client use the gate.
func play(ctx context.Context, h *history, client int, r *rand.Rand, s *storage.Store, turns int) error {
	g, err := gate.New(s, name, gate.Polling(100*time.Millisecond))
	if err != nil {
		return err
	}
	for range turns {
		h.Record(client, func() []storagetest.Answer[string, register] {
			a := storagetest.Answer[string, register]{Key: name}
			var err error
			switch r.IntN(8) {
			case 0, 1:
				a.In, err = "open", g.Open(ctx, gate.Note{})
			case 2, 3:
				a.In, err = "close", g.Close(ctx, gate.Note{})
			case 4:
				a.In, err = "announce", g.OpenAt(ctx, time.Now().Add(time.Duration(r.IntN(40))*time.Millisecond), gate.Note{})
				if errors.Is(err, gate.ErrOpen) {
					a.In, err = "announce, but it is open", nil
				}
			case 5:
				short, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
				defer cancel()
				if g.Wait(short) != nil {
					return nil
				}
				a.In = "wait"
			default:
				st, err := g.State(ctx)
				if err != nil {
					return nil
				}
				a.In, a.Out = "state", register{st.Open, !st.OpensAt.IsZero(), st.Epoch}
			}
			a.Unknown = err != nil
			return []storagetest.Answer[string, register]{a}
		})
	}
	return nil
}

// checkHistory lets a client for each store use one gate, with calls that fail and answers that are lost, and asks
// whether a gate could have answered so.
func checkHistory(t *testing.T, seed uint64, turns int, stores ...*storage.Store) {
	t.Helper()
	t.Logf("seed %d", seed)
	var (
		h   history
		all sync.WaitGroup
	)
	for i, s := range stores {
		shaky, _ := storagetest.Disturb(s, storagetest.Disturbance{Schedule: storagetest.Seeded(seed+uint64(i), map[storagetest.Fault]float64{
			storagetest.FailBefore: 0.02, storagetest.FailAfter: 0.05,
		})})
		all.Go(func() {
			if err := play(t.Context(), &h, i, rand.New(rand.NewPCG(seed, uint64(i))), shaky, turns); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := storagetest.CheckHistory(&h, step, t.TempDir()); err != nil {
		t.Error(err)
	}
	kinds := map[string]int{}
	for _, a := range h.Answers() {
		kinds[a.In]++
	}
	t.Logf("calls: %v", kinds)
	for _, kind := range []string{"open", "close", "announce", "state", "wait"} {
		if kinds[kind] == 0 {
			t.Errorf("no call %s was answered", kind)
		}
	}
}

func TestAGateIsLinearizable(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, rand.Uint64(), 1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			var stores []*storage.Store
			for range 4 {
				s, err := sqlite.Open(t.Context(), path+"?sync=normal")
				must(t, err)
				t.Cleanup(func() { _ = s.Close() })
				stores = append(stores, s)
			}
			checkHistory(t, seed, 50, stores...)
		})
	}
}

var azurite = sync.OnceValues(azuretest.Launch)

func TestAGateIsLinearizableOnAzure(t *testing.T) {
	t.Parallel()
	place := azuretest.Place(t, azurite, azure.Wipe)
	var stores []*storage.Store
	for range 4 {
		s, err := azure.Open(t.Context(), place)
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		stores = append(stores, s)
	}
	checkHistory(t, rand.Uint64(), 30, stores...)
}

// The model refuses what a gate must not do.
func TestTheModelRefuses(t *testing.T) {
	t.Parallel()
	answer := func(in string, out register) []storagetest.Answer[string, register] {
		return []storagetest.Answer[string, register]{{Key: name, In: in, Out: out}}
	}
	for what, calls := range map[string][][]storagetest.Answer[string, register]{
		"a wait that ends before the opening": {answer("close", register{}), answer("wait", register{}), answer("open", register{})},
		"an opening that was lost":            {answer("open", register{}), answer("state", register{epoch: 1})},
		"an opening that was done twice":      {answer("open", register{}), answer("state", register{open: true, epoch: 2})},
		"an announcement that outlasts a closing": {answer("announce", register{}), answer("close", register{}), answer("state", register{epoch: 2}),
			answer("state", register{open: true, epoch: 3})},
	} {
		var h history
		for _, c := range calls {
			h.Record(0, func() []storagetest.Answer[string, register] { return c })
		}
		if storagetest.CheckHistory(&h, step, t.TempDir()) == nil {
			t.Errorf("%s: not noticed", what)
		}
	}
}
