package ops_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/process"
)

// newDoubts serves the pages of a store with as many parcels of which nobody knows whether the bank has been asked,
// until the test ends. The bank's words are the program's.
func newDoubts(t *testing.T, n int) *site {
	t.Helper()
	x := newShop(t, "pay", func(p *process.Plan[parcel]) {
		process.Do(p, "charge", func(context.Context, parcel) (string, error) {
			return "", handlers.Poison(handlers.ReasonOutcomeUnknown, errors.New("Ada's bank broke off"))
		}, nil)
	})
	for i := range n {
		if err := process.Open[parcel](x.Channels, "pay").Start(t.Context(), fmt.Sprintf("o%d", i+1), parcel{Order: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	worldtest.Eventually(t, func() error {
		l, err := process.Look(x.Store, "pay", act.Source)
		if err != nil {
			return err
		}
		stuck := 0
		for e, err := range l.Open(t.Context()) {
			if err != nil {
				return err
			}
			if e.Unknown {
				stuck++
			}
		}
		if stuck < n {
			return fmt.Errorf("%d of %d are stuck", stuck, n)
		}
		return nil
	})
	x.serve(t, x.Store)
	return x
}

// Law: a step of which nobody knows whether its effect has happened is a finding of its own, which leads to what says
// so: to what is known, and then to what each answer has done, in a sentence. Its page shows the framework's words, and
// none of the program's.
func TestLawADoubtLeadsToWhoKnows(t *testing.T) {
	t.Parallel()
	x := newDoubts(t, 1)
	const skip, fail, retry = `do/processes/skip?id=o1&amp;plan=pay&amp;step=01"`, `do/processes/fail?id=o1&amp;plan=pay&amp;step=01"`, `do/processes/retry?id=o1&amp;plan=pay&amp;step=01"`
	first := x.want(t, 200, ask{role: act.Operator}, "1 instance is stuck, because nobody knows whether the effect of a step has happened", "(step 01 charge, ", skip, fail, `./processes/o1?plan=pay"`)
	at := -1
	for _, want := range []string{`./processes/o1?plan=pay">Show</a> <span>`, skip + ">Skip</a> <span>the effect has happened: the step counts as done, and the instance goes on", retry + ">Retry</a> <span>the effect has not happened, or happens once under one key: the step is done again with the same key",
		fail + ">Fail</a> <span>the effect has not happened, and nobody shall try again: what was done before is undone"} {
		next := strings.Index(first, want)
		if next <= at {
			t.Errorf("%s is at %d of the first page, want it after %d:\n%s", want, next, at, first)
		}
		at = next
	}
	page := x.want(t, 200, ask{path: "processes/o1?plan=pay", role: act.Operator}, "outcome unknown: poison: outcome unknown: hidden text of 20 characters (#",
		"Nobody knows whether the effect of attempt 1 has happened. It began at ", " later. Its key is ", skip+">the effect has happened", fail+">the effect has not happened", retry)
	if a, b, c := strings.Index(page, skip), strings.Index(page, retry), strings.Index(page, fail); a > b || b > c {
		t.Errorf("the page has the ways at %d, %d and %d, and not in the order of the first page", a, b, c)
	}
	watched := x.want(t, 200, ask{path: "processes/o1?plan=pay", role: act.Viewer}, "the effect has happened: the step counts as done, and the instance goes on: <code>millrace processes skip o1 01 --plan pay</code>")
	for name, body := range map[string]string{"first": first, "operator's": page, "viewer's": watched} {
		if strings.Contains(body, "Ada") || name == "viewer's" && strings.Contains(body, "do/processes/fail") {
			t.Errorf("the %s page has the program's text, or an act that its reader may not do", name)
		}
	}
	x.want(t, 200, ask{method: "POST", path: "do/processes/fail", role: act.Operator, json: `{"id": "o1", "step": "01", "wait": "30s"}`, header: program}, `"result":"done"`)
}

// Law: an act on all instances that are stuck does nothing again that may have been done.
func TestLawASelectionDoesNothingAgainInDoubt(t *testing.T) {
	t.Parallel()
	x := newDoubts(t, 2)
	x.want(t, 200, ask{role: act.Operator}, "2 instances are stuck, because nobody knows", "<strong>List</strong> shows them")
	if first := x.want(t, 200, ask{role: act.Operator}); strings.Contains(first, "do/processes/retry") {
		t.Error("the first page offers to do many steps again")
	}
	_, body := x.ask(t, ask{method: "POST", path: "do/processes/retry", role: act.Operator, json: `{"stuck": true, "wait": "30s"}`, header: program})
	for _, want := range []string{"2 of 2 are not done", `"id":"o1","do":"","result":"refused","text":"nobody knows what step 01 charge has done`} {
		if !strings.Contains(body, want) {
			t.Errorf("got %s, want %s", body, want)
		}
	}
	l, err := process.Look(x.Store, "pay", act.Source)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Stream(t.Context(), "o1")
	if err != nil || s.Lines[1].Attempt != 1 || !s.Lines[1].Unknown {
		t.Errorf("got %+v, %v; want it in doubt after one attempt", s, err)
	}
}
