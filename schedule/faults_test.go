package schedule_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/faulttest"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// A Ledger counts the jobs for each due time.
type Ledger struct {
	Dues map[string]int `json:"dues"`
}

// ledgers is where the jobs of a schedule are decided.
func ledgers(c *channel.Channels) *values.Collection[Ledger] {
	return values.New(c, "ledgers", values.Config[Ledger]{})
}

// enter decides a job, and says that its run has ended.
func (l Ledger) enter(j Job) (Ledger, []channel.Message, error) {
	if l.Dues == nil {
		l.Dues = map[string]int{}
	}
	l.Dues[j.Due.UTC().Format(time.RFC3339)]++
	return l, []channel.Message{schedule.Done{Run: j.Run}}, nil
}

// wantEach returns an error unless a ledger has each due time once, from the first one on until the last one.
func (l Ledger) wantEach(spec schedule.Spec, from, to time.Time) error {
	n := 0
	for t := spec.Next(from); !t.After(to); t = spec.Next(t) {
		n++
		if got := l.Dues[t.UTC().Format(time.RFC3339)]; got != 1 {
			return fmt.Errorf("%v came %d times", t, got)
		}
	}
	if n == 0 || n != len(l.Dues) {
		return fmt.Errorf("got %d due times, want %d: %v", len(l.Dues), n, l.Dues)
	}
	return nil
}

// accountant is a program whose schedule's commands are entered in a ledger.
func accountant(spec schedule.Spec, overlap schedule.Overlap) millracetest.Program {
	return millracetest.Program{
		Routes: routes,
		Register: func(h *handlers.Registry) error {
			cfg := schedule.Config{Missed: schedule.All, Overlap: overlap, Longest: time.Hour}
			schedule.Every(h, "it", spec, jobOf, cfg)
			handlers.Decide(h, ledgers(h.Channels()), func(j Job) string { return j.Schedule }, Ledger.enter, schedule.Done{})
			return h.Err()
		},
	}
}

// Under random faults each due time comes once, and the framework's laws hold for the program.
func TestUnderRandomFaults(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	spec := schedule.Interval(2 * time.Minute)
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		overlap := schedule.Allow
		if sim.Rand.IntN(2) == 0 {
			overlap = schedule.Queue
		}
		sim.Start(accountant(spec, overlap))
		sim.Advance(time.Duration(20+sim.Rand.IntN(40)) * time.Minute)
		sim.Settle()
		x := ok(schedule.At(sim.Store(), "it").Info(t.Context()))(t)
		registered := x.Changes[len(x.Changes)-1].At
		ledger := millracetest.Value(t, ledgers(sim.Channels()), "it")
		if err := ledger.wantEach(spec, registered, x.Next.Add(-1)); err != nil {
			t.Errorf("%v: %v\n%+v", overlap, err, x)
		}
	})
}

// Each run has one fault, of every kind, in one storage call of a worker, while a schedule is registered and due twice.
func TestEverySingleFault(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	spec := schedule.Interval(time.Minute)
	for i, fault := range storagetest.Faults() {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			for n, more := 1+i%worldtest.Stride, true; more; n += worldtest.Stride {
				if more = singleFault(t, spec, fault, n, n%2 == 0); t.Failed() || n > 500 {
					t.Fatalf("stopped at call %d", n)
				}
			}
		})
	}
}

// singleFault runs with a fault in call n of the first worker. It is false if there is no such call.
func singleFault(t *testing.T, spec schedule.Spec, fault storagetest.Fault, n int, plain bool) (hit bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var done atomic.Bool
		plan := faulttest.Plan{Plain: plain, Workers: 1, Visibility: 15 * time.Second, Delay: 20 * time.Second}
		plan.Schedule = func(storagetest.Op) storagetest.Fault {
			if calls.Add(1) != int64(n) {
				return storagetest.NoFault
			}
			done.Store(true)
			return fault
		}
		w := faulttest.New(worldtest.OpenStore(t, worldtest.Virtual), plan)
		ctx, stop := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		workers.Go(func() {
			w.Keep(ctx, 0, func(p *faulttest.Process) (*handlers.Registry, error) {
				r := ok(routes())(t)
				h := handlers.NewRegistry(ok(channel.New(p.Store, r, "/test"))(t), handlers.Config{Logger: w.Log(p.Name)})
				return h, accountant(spec, schedule.Queue).Register(h)
			}, nil)
		})
		_ = worldtest.Pause(ctx, 2*time.Minute+30*time.Second)
		w.EndFaults()
		_ = worldtest.Pause(ctx, 2*time.Minute+25*time.Second) // until all that is due has come, by polls
		stop()
		workers.Wait()
		x := ok(schedule.At(w.Store, "it").Info(t.Context()))(t)
		c := ok(channel.New(w.Store, ok(routes())(t), "/test"))(t)
		err := millracetest.Value(t, ledgers(c), "it").wantEach(spec, x.Changes[len(x.Changes)-1].At, x.Next.Add(-1))
		if err != nil || len(w.Failures()) > 0 || x.State != schedule.Working {
			t.Errorf("%v in call %d, plain %v: %v, failures %q\n%+v\n%s", fault, n, plain, err, w.Failures(), x, w.History(0))
		}
		hit = done.Load()
	})
	return hit
}
