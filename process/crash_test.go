package process_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

// ledger is the outside of a crash run: a bank that recognises keys. It knows each effect, and whether it was undone.
type ledger struct {
	mu      sync.Mutex
	effects map[string]int // by key of the step: 1 done, 0 undone; under mu
	undone  []string       // in order, by name; under mu
}

func newLedger() *ledger { return &ledger{effects: map[string]int{}} }

func (b *ledger) do(ctx context.Context, name string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	effect := name + " " + process.Key(ctx)
	if _, known := b.effects[effect]; !known {
		b.effects[effect] = 1
	}
	return effect, nil
}

func (b *ledger) undo(name, effect string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.effects[effect] == 0 {
		return nil // undone before, as its key says
	}
	b.effects[effect] = 0
	b.undone = append(b.undone, name)
	return nil
}

// left returns how many effects there are.
func (b *ledger) left() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.effects {
		n += x
	}
	return n
}

func (b *ledger) step(p *process.Plan[note], name string) *process.Step[note, note, string] {
	return process.Do(p, name, func(ctx context.Context, _ note) (string, error) { return b.do(ctx, name) }, nil).
		Undo(func(_ context.Context, _ note, effect string) error { return b.undo(name, effect) })
}

// A fault in any storage call of a worker changes nothing of how an instance ends: one that fails in its last step, and
// takes back what it has done, the last thing first.
func TestFailureWithAFaultEverywhere(t *testing.T) {
	t.Parallel()
	millracetest.CrashEverywhere(t, func(t *testing.T, start func(millracetest.Program) *millracetest.App) {
		b := newLedger()
		app := start(millracetest.Plan(planName, func(p *process.Plan[note]) {
			b.step(p, "a")
			process.Each(p, "each", func(note) []string { return []string{"x", "y"} },
				func(ctx context.Context, item string) (string, error) { return b.do(ctx, item) }, nil).
				Undo(func(_ context.Context, _, effect string) error { return b.undo("item", effect) })
			process.Do(p, "fail", func(ctx context.Context, _ note) (string, error) {
				if process.Attempt(ctx) == 1 {
					return "", errors.New("503")
				}
				return "", process.Refuse(errors.New("no"))
			}, nil)
		}, nil))
		notes := process.Open[note](app.Channels(), planName)
		if err := notes.Start(t.Context(), "i", note{Did: []string{}}); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		app.Advance(5 * time.Minute)
		if s, err := notes.Get(t.Context(), "i"); err != nil || s.Status != process.Aborted {
			t.Errorf("got %s, %v, want that it has failed", s.Status, err)
		}
		if want := []string{"item", "item", "a"}; b.left() != 0 || !slices.Equal(b.undone, want) {
			t.Errorf("%d effects are left, undone were %v; want none, and %v", b.left(), b.undone, want)
		}
	})
}

// The same of one that gathers what its parts have done, and is cancelled then: the parts take it back.
func TestPartsWithAFaultEverywhere(t *testing.T) {
	t.Parallel()
	millracetest.CrashEverywhere(t, func(t *testing.T, start func(millracetest.Program) *millracetest.App) {
		b := newLedger()
		app := start(millracetest.Plan(planName, func(p *process.Plan[note]) {
			process.Split(p, "split", func(note) []string { return []string{"x", "y"} }, func(i string) note { return note{Did: []string{i}} },
				func(p *process.Plan[note]) { b.step(p, "part") }, func(n, _ note) note { return note{[]string{fmt.Sprint(len(n.Did) + 1)}} })
			process.Wait(p, "wait", note.goOn).Within(10 * time.Hour)
		}, nil))
		notes := process.Open[note](app.Channels(), planName)
		if err := notes.Start(t.Context(), "i", note{Did: []string{}}); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		s, err := notes.Get(t.Context(), "i")
		if err != nil || s.Status != process.InProcess || !slices.Equal(s.WaitsFor, []string{"wait"}) || b.left() != 2 {
			t.Errorf("got %s, waiting for %q, with %d effects, %v; want that both parts were gathered", s.Status, s.WaitsFor, b.left(), err)
		}
		if err := notes.Cancel(t.Context(), "i", "ada", "enough"); err != nil {
			t.Fatal(err)
		}
		app.Advance(5 * time.Minute)
		if s, err := notes.Get(t.Context(), "i"); err != nil || s.Status != process.Canceled {
			t.Errorf("got %s, %v, want cancelled", s.Status, err)
		}
		if b.left() != 0 {
			t.Errorf("%d effects are left, want none", b.left())
		}
	})
}
