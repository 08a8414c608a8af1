package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// withoutTurns returns the store, whose turns can't be written while away is true.
func withoutTurns(s *storage.Store, away *atomic.Bool) *storage.Store {
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "put row" && strings.Contains(op.Resource, "turns/") && away.Load() {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
}

// A call of unknown outcome isn't made again because its turn was lost meanwhile, or could not be ended: its message
// goes to the poison queue, in turn and in order. The next one goes on when its patience is out, or before.
func TestLawInTurnAnUnknownOutcomeOutlivesItsTurn(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("the turn is lost: %v, in order: %v", lost, ordered), func(t *testing.T) {
				virtually(t, func(t *testing.T, s *storage.Store) {
					var away atomic.Bool
					sick := withoutTurns(s, &away)
					bank := guard.New("bank", guard.Config{})
					calls := map[int]int{}
					pay := func(ctx context.Context, n int) error {
						return bank.Do(ctx, func(ctx context.Context) error {
							if calls[n]++; n > 1 || calls[1] > 1 {
								return nil
							}
							away.Store(true)
							if lost {
								<-ctx.Done() // the order was sent, and nobody knows
							}
							return context.DeadlineExceeded
						})
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
					away.Store(false)
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
func TestLawInTurnNobodyWaitsForWhatIsDone(t *testing.T) {
	t.Parallel()
	for _, halted := range []bool{false, true} {
		t.Run(fmt.Sprintf("it has halted the key: %v", halted), func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) {
				var away atomic.Bool
				tries := 0
				x := newStreet(t, withoutTurns(s, &away), nil, handlers.TurnConfig{Halt: true}, func(_ context.Context, e visit) error {
					if e.N > 1 {
						return nil
					}
					tries++
					switch {
					case tries == 2:
						away.Store(true)
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
				away.Store(false)
				x.send(t, visit{Key: "a", N: 2})
				time.Sleep(5 * time.Minute)
				if got := x.runs("a"); len(got) < 4 || got[len(got)-2] != 1 || got[len(got)-1] != 2 {
					t.Errorf("got runs %v; want the first again until that is noted, and then the second", got)
				}
			})
		})
	}
}
