package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// errNoAnswer is the error of a call that may be done.
var errNoAnswer = handlers.Poison(handlers.ReasonOutcomeUnknown, context.DeadlineExceeded)

// outage is a store that fails in part, or as a whole, while it is away.
type outage struct {
	away  atomic.Bool
	fails func(op storagetest.Op) bool // nil: every call
}

func (o *outage) of(s *storage.Store) *storage.Store {
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if o.away.Load() && (o.fails == nil || o.fails(op)) {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
}

func writesTurn(op storagetest.Op) bool {
	return op.Name == "put row" && strings.Contains(op.Resource, "turns/")
}

func toPoison(op storagetest.Op) bool { return strings.Contains(op.Resource, "poison") }

// A call of unknown outcome isn't made again because its turn was lost meanwhile, or could not be ended: its message
// goes to the poison queue, in turn and in order. The next one goes on when its patience is out, or before.
func TestLawOneAtATimeAnUnknownOutcomeOutlivesItsTurn(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("the turn is lost: %v, in order: %v", lost, ordered), func(t *testing.T) {
				virtually(t, func(t *testing.T, s *storage.Store) {
					o := &outage{fails: writesTurn}
					sick := o.of(s)
					calls := map[int]int{}
					pay := func(ctx context.Context, n int) error {
						if calls[n]++; n > 1 || calls[1] > 1 {
							return nil
						}
						o.away.Store(true)
						if lost {
							<-ctx.Done() // the order was sent, and nobody knows
						}
						return errNoAnswer
					}
					var w *world
					queue := "visits"
					if ordered {
						queue = "audits"
						l := newLane(t, sick, nil, handlers.TurnConfig{}, func(ctx context.Context, e Added) error { return pay(ctx, e.Balance) })
						l.emit(t, "a", 1, 0)
						l.emit(t, "a", 2, 1)
						w = &l.world
					} else {
						x := newStreet(t, sick, nil, handlers.TurnConfig{}, func(ctx context.Context, e visit) error { return pay(ctx, e.N) })
						x.send(t, numbered("a", 2)...)
						w = &x.world
					}
					w.Start(worker.Config{Logger: slog.New(slog.DiscardHandler)})
					time.Sleep(40 * time.Second)
					o.away.Store(false)
					time.Sleep(time.Hour)
					worldtest.Want(t, "calls whose outcome is unknown", calls[1], 1)
					worldtest.Want(t, "poisoned", len(w.Poisoned(queue)), 1)
					if calls[2] == 0 {
						t.Error("the next one was not called")
					}
					worldtest.Want(t, "left", worldtest.Queued(t, s, queue), 0)
				})
			})
		}
	}
}

// A message that its key waits for, or that has halted its key, isn't deleted before its turn knows that it is done:
// else the others would wait for it in vain.
func TestLawOneAtATimeNobodyWaitsForWhatIsDone(t *testing.T) {
	t.Parallel()
	for _, halted := range []bool{false, true} {
		t.Run(fmt.Sprintf("it has halted the key: %v", halted), func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) {
				o := &outage{fails: writesTurn}
				tries := 0
				x := newStreet(t, o.of(s), nil, handlers.TurnConfig{Halt: true}, func(_ context.Context, e visit) error {
					if e.N > 1 {
						return nil
					}
					tries++
					switch {
					case tries == 2:
						o.away.Store(true)
					case tries == 1 && halted:
						return handlers.Poison("closed", nil)
					case tries == 1:
						return context.DeadlineExceeded
					}
					return nil
				})
				x.Start(worker.Config{Logger: slog.New(x.log)})
				x.send(t, visit{Key: "a", N: 1})
				time.Sleep(10 * time.Second)
				for _, e := range x.Poisoned("visits") {
					if err := poison.At(x.Channels, "visits").Retry(t.Context(), e.Key); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(20 * time.Second)
				o.away.Store(false)
				x.send(t, visit{Key: "a", N: 2})
				time.Sleep(5 * time.Minute)
				if got := x.runs("a"); len(got) < 4 || got[len(got)-2] != 1 || got[len(got)-1] != 2 {
					t.Errorf("got runs %v; want the first again until that is noted, and then the second", got)
				}
			})
		})
	}
}

// payer is a process that makes calls of unknown outcome, after which its store is away.
type payer struct {
	world
	calls atomic.Int64
}

// newPayer makes a process. A call that waits learns nothing until its context ends.
func newPayer(t *testing.T, s *storage.Store, o *outage, once, waits bool) *payer {
	t.Helper()
	p := &payer{}
	p.World = worldtest.NewBare(t, o.of(s), handlers.Config{Timeout: 20 * time.Minute}, channel.Command[visit]("visits"))
	pay := func(ctx context.Context, _ visit) error {
		if p.calls.Add(1) > 1 {
			return nil
		}
		o.away.Store(true)
		if waits {
			<-ctx.Done()
		}
		return errNoAnswer
	}
	if once {
		handlers.ReactOnce(p.Registry, "visits", pay)
	} else {
		handlers.React(p.Registry, "visits", pay)
	}
	return p
}

// A message of unknown outcome goes to the poison queue as soon as that can be written, while no other worker has the
// message. Its handler doesn't run again. Where handlers.ReactOnce knows it, that holds for longer outages, too.
func TestLawAnUnknownOutcomeWaitsForThePoisonQueue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		fails       func(op storagetest.Op) bool
		away        time.Duration
		once, waits bool
	}{
		{"one write fails", toPoison, time.Millisecond, false, false},
		{"the poison queue is away", toPoison, 5 * time.Minute, false, false},
		{"the store is away", nil, 20 * time.Second, false, false},
		{"the store is away, and the message is no longer proved", nil, 27 * time.Second, false, true},
		{"the store is away for longer", nil, 2 * time.Minute, true, false},
		{"the store is away for longer, and cuts the call off", nil, 2 * time.Minute, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) {
				o := &outage{fails: test.fails}
				p := newPayer(t, s, o, test.once, test.waits)
				p.Start(worker.Config{})
				worldtest.Send(p.World, visit{Key: "a"})
				time.Sleep(test.away)
				o.away.Store(false)
				time.Sleep(30 * time.Minute)
				worldtest.Want(t, "calls", p.calls.Load(), 1)
				worldtest.Want(t, "poisoned", len(p.Poisoned("visits")), 1)
				worldtest.Want(t, "left", worldtest.Queued(t, s, "visits"), 0)
			})
		})
	}
}

// A worker that stops doesn't wait for a poison queue that is away.
func TestLawAnUnknownOutcomeHoldsNoStopUp(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		o := &outage{fails: toPoison}
		p := newPayer(t, s, o, false, false)
		stop := p.Start(worker.Config{DrainTimeout: 10 * time.Second})
		worldtest.Send(p.World, visit{Key: "a"})
		time.Sleep(time.Minute)
		began := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the stop took %v; want DrainTimeout and a few seconds", took)
		}
		worldtest.Want(t, "calls", p.calls.Load(), 1)
		worldtest.Want(t, "left", worldtest.Queued(t, s, "visits"), 1)
	})
}
