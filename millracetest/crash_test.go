package millracetest_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

// bag is what a plan of one step checks in.
type bag struct {
	Label string `json:"label"`
}

// checkIn runs a plan of one agent with faults everywhere.
func checkIn(t *testing.T, label func(ctx context.Context, b bag) (string, error)) {
	t.Helper()
	millracetest.CrashEverywhere(t, func(t *testing.T, start func(millracetest.Program) *millracetest.App) {
		app := start(millracetest.Plan("bags", func(p *process.Plan[bag]) {
			process.Do(p, "label", label, func(b bag, l string) bag { return bag{l} })
		}, nil))
		bags := process.Open[bag](app.Channels(), "bags")
		if err := bags.Start(t.Context(), "red", bag{}); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		if s, err := bags.Get(t.Context(), "red"); err != nil || s.Status != process.Completed {
			t.Errorf("got %s, %v, want completed", s.Status, err)
		}
	})
}

// A plan ends in the same way, whatever happens to a storage call, if its agent has the same effect for a key.
func TestCrashEverywhere(t *testing.T) {
	t.Parallel()
	checkIn(t, func(ctx context.Context, _ bag) (string, error) { return "label " + process.Key(ctx), nil })
}

// So does a program without a plan: its value objects and views are compared.
func TestCrashEverywhereInAProgram(t *testing.T) {
	t.Parallel()
	millracetest.CrashEverywhere(t, func(t *testing.T, start func(millracetest.Program) *millracetest.App) {
		app := start(program(&mails{}))
		app.Send(place{"a", 2})
		app.Drain()
	})
}

// wavering is a plan whose result depends on how often its agent runs, so a fault shows.
func wavering(t *testing.T) {
	n := 0
	var mu sync.Mutex
	checkIn(t, func(context.Context, bag) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return string(rune('a' + n%20)), nil
	})
}

func neverStarted(t *testing.T) {
	millracetest.CrashEverywhere(t, func(*testing.T, func(millracetest.Program) *millracetest.App) {})
}

func wrongAgent(t *testing.T) {
	agents := millracetest.Agents{"label": func(bag) string { return "" }, "no such": nil}
	millracetest.Run(t, millracetest.Plan("bags", func(p *process.Plan[bag]) {
		process.Do(p, "label", func(context.Context, bag) (string, error) { return "", nil }, nil)
	}, agents), func(*testing.T, *millracetest.App) {})
}

// Gathering functions are held against each other's orders.
func TestShuffled(t *testing.T) {
	t.Parallel()
	count := func(n int, _ string) int { return n + 1 }
	sorted := func(all []string, s string) []string {
		all = append(slices.Clone(all), s)
		slices.Sort(all)
		return all
	}
	millracetest.Shuffled(t, count, 3, "a", "b", "c")
	millracetest.Shuffled(t, sorted, nil, "c", "a", "b")
}

func inOrder(t *testing.T) {
	millracetest.Shuffled(t, func(all []string, s string) []string { return append(slices.Clone(all), s) }, nil, "a", "b")
}

func inPlace(t *testing.T) {
	millracetest.Shuffled(t, func(m map[string]int, s string) map[string]int { m[s]++; return m }, map[string]int{}, "a", "b")
}

func tooFew(t *testing.T) {
	millracetest.Shuffled(t, func(n int, _ string) int { return n }, 0, "a")
}
