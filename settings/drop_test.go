package settings_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// dropped fails the test unless the ending tells that bob has rolled a version back, and nothing else was proposed.
func (f *fleet) dropped(version int64, e settings.Ending) {
	f.t.Helper()
	time.Sleep(time.Second)
	wantSeats(f.t, 50, f.nodes...)
	if e.Version != version || e.Result != settings.RolledBack || len(e.Reasons) != 1 || e.Reasons[0] != (settings.Refusal{Node: "bob", Why: "it smells"}) {
		f.t.Errorf("got %+v, want version %d to be rolled back by bob", e, version)
	}
	f.ended(version, settings.RolledBack)
	if c := current(f.t, f.store); c.Version != 1 || c.Candidate != 0 {
		f.t.Errorf("got %+v, want version 1 alone", c)
	}
}

// Law: no roll-back waits for anybody. Going back to what is in force drops a roll-out at once, and so does a forced
// change to that. The ending is that of the roll-out. A lost answer changes none of it. Without a roll-out, there is
// nothing to do.
func TestLawWhatIsInForceDropsARollOutAtOnce(t *testing.T) {
	t.Parallel()
	bob := settings.By("bob", "it smells")
	inForce := settings.Patch{Set: map[string]jsonText{"seats": jsonText("50"), "half": jsonText("25")}, Force: true}
	for name, drop := range map[string]func(ctx context.Context, l *settings.Ledger) (settings.Ending, error){
		"back": func(ctx context.Context, l *settings.Ledger) (settings.Ending, error) { return l.Back(ctx, 1, bob) },
		"set": func(ctx context.Context, l *settings.Ledger) (settings.Ending, error) {
			return l.Set(ctx, bob, inForce)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				f := newFleet(t, s, 4, nil)
				_, err := f.nodes[0].Propose(t.Context(), settings.Note{Now: true}, seats(50))
				must(t, err)
				var lose atomic.Bool
				l := ledger(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					err := do()
					if err == nil && op.Name == "put blob" && op.Resource == "blob settings/shop/current" && lose.Swap(false) {
						return op.Fail(storage.ErrUnavailable)
					}
					return err
				}))
				for _, lost := range []bool{false, true} {
					v := f.roll(0, 60)
					began := time.Now()
					lose.Store(lost)
					e, err := drop(t.Context(), l)
					must(t, err)
					if took := time.Since(began); took > 2*time.Second || lose.Load() {
						t.Errorf("it took %v, and an answer is still to be lost: %v", took, lose.Load())
					}
					f.dropped(v, e)
				}
				_, err = drop(t.Context(), l)
				wantErr(t, err, settings.ErrUnchanged)
			})
		})
	}
}

// Law: a proposal is refused for its own sake alone. One that has waited for another change goes on, however that ends.
func TestLawAProposalOutlivesTheRollBackOfAnother(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		var ill atomic.Bool
		n := node(t, s, settings.Config{
			Stages: settings.InStages(time.Minute, 100), Patience: 20 * time.Second,
			Health: func(context.Context) error {
				if ill.Load() {
					return errors.New("ill")
				}
				return nil
			},
		})
		n.Changing(func(_ context.Context, _, to shop) error {
			if to.Seats == 50 {
				time.Sleep(3 * time.Second)
			}
			return nil
		})
		n.Changed(func(_, to shop) { ill.Store(to.Seats == 50) })
		go func() { _, _ = n.Propose(t.Context(), ada, seats(50)) }()
		time.Sleep(time.Second)
		rate := settings.Patch{Set: map[string]jsonText{"mail.rate": jsonText("20")}}
		e, err := ledger(t, s).Set(t.Context(), settings.By("bob", "mail"), rate)
		for errors.Is(err, settings.ErrRolling) { // it looked in the moment between the beginning and the roll-back
			time.Sleep(time.Millisecond)
			e, err = ledger(t, s).Set(t.Context(), settings.By("bob", "mail"), rate)
		}
		must(t, err)
		if c := current(t, s); e.Version != 2 || e.Result != settings.Rolling || len(c.Ended) != 1 || c.Ended[0].Result != settings.RolledBack {
			t.Errorf("got %+v after %+v, want version 2 to be rolled out after the roll-back of version 1", e, c.Ended)
		}
	})
}
