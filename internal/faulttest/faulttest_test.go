package faulttest_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/faulttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A seed makes the same plan each time, and each fault has a chance in some seed.
func TestDraw(t *testing.T) {
	t.Parallel()
	seen, plain := map[storagetest.Fault]bool{}, 0
	for seed := range uint64(100) {
		draw := func() faulttest.Plan { return faulttest.Draw(seed, rand.New(rand.NewPCG(seed, 1))) }
		p := draw()
		if again := draw(); !reflect.DeepEqual(p, again) {
			t.Errorf("seed %d: got %+v and %+v", seed, p, again)
		}
		for f := range p.Chances {
			seen[f] = true
		}
		if p.Plain {
			plain++
		}
	}
	if len(seen) != len(storagetest.Faults()) || plain != 50 {
		t.Errorf("got faults %v, and %d of 100 seeds in steps; want all faults, and half", seen, plain)
	}
}

// A worker that dies is followed by another one. Once faults are over, nothing fails any more.
func TestKeep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := faulttest.Plan{Seed: 1, Workers: 1, Visibility: 15 * time.Second, Delay: time.Second}
		plan.Schedule = func(op storagetest.Op) storagetest.Fault {
			if op.Name == "commit" {
				return storagetest.CrashAfter
			}
			return storagetest.NoFault
		}
		w := faulttest.New(worldtest.OpenStore(t, worldtest.Virtual), plan)
		var crashes int
		w.Watch = func(_ *faulttest.Process, _ storagetest.Op, f storagetest.Fault, _ error) {
			if f == storagetest.CrashAfter {
				crashes++
			}
		}
		start := func(p *faulttest.Process) (*handlers.Registry, error) {
			own := worldtest.New(t, p.Store, worldtest.Config{})
			own.Decide()
			return own.Registry, own.Registry.Err()
		}
		ctx, stop := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		workers.Go(func() { w.Keep(ctx, 0, start, nil) })
		here := worldtest.New(t, w.Store, worldtest.Config{})
		worldtest.Send(here, worldtest.Add{To: "ada", Amount: 5})
		_ = worldtest.Pause(ctx, 5*time.Minute)
		w.EndFaults()
		if now, later, err := w.Left(ctx, []string{worldtest.Accounts}); now+later != 0 || err != nil {
			t.Errorf("%d messages are left (%v)", now+later, err)
		}
		stop()
		workers.Wait()
		if got := here.Balance("ada"); got != 5 || crashes != 1 {
			t.Errorf("got balance %d after %d crashes, want 5 after one", got, crashes)
		}
		for _, want := range []string{"worker1.1 is dead", "worker1.2 begins", "faults are over"} {
			if !strings.Contains(w.History(0), want) {
				t.Errorf("the history doesn't say %q:\n%s", want, w.History(0))
			}
		}
		if short := w.History(2); strings.Count(short, "\n") != 2 || !strings.Contains(short, "lines before") {
			t.Errorf("the end of the history: got\n%s", short)
		}
		if f := w.Failures(); len(f) > 0 {
			t.Errorf("failures: %q", f)
		}
	})
}

// All processes of a run, and its store, cancel messages in the same way to the end.
func TestOneKindOfStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, plain := range []bool{false, true} {
			w := faulttest.New(worldtest.OpenStore(t, worldtest.Virtual), faulttest.Plan{Plain: plain})
			before := w.Client("before").Store.Finds()
			w.EndFaults()
			got := []bool{w.Store.Finds(), before, w.Client("after").Store.Finds()}
			if want := []bool{!plain, !plain, !plain}; !reflect.DeepEqual(got, want) {
				t.Errorf("plain %v: the store, a process under faults and one after them find messages: got %v, want %v", plain, got, want)
			}
		}
	})
}
