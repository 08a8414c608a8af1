package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// An effect that may have happened is repeated for no copy, but for an operator's decision. If that run fails, the
// outcome of the earlier one is still unknown.
func TestOnceAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		id, runs, ends := worldtest.IDAt(time.Now(), 0), 0, error(nil)
		guarded := guard(s, "mails", func(context.Context) error { runs++; return ends })
		run := func(what, retried string, end error, wantRuns int, want verdict.Action) {
			t.Helper()
			e := envelope(id, "test.added.v1", "{}")
			e.Retried, ends, runs = retried, end, 0
			v := verdict.Judge(guarded(wire.WithHandling(t.Context(), e, "mails", nil)))
			if runs != wantRuns || v.Action != want || v.Action == verdict.ToPoison && v.Reason != verdict.ReasonOutcomeUnknown {
				t.Errorf("%s: %d runs, %+v; want %d runs, action %v", what, runs, v, wantRuns, want)
			}
		}
		down := errors.New("not done")
		lost := verdict.Poison(verdict.ReasonOutcomeUnknown, errors.New("no answer"))
		run("a failure", "", down, 1, verdict.TryAgain)
		run("the next attempt", "", lost, 1, verdict.ToPoison)
		run("a copy", "", nil, 0, verdict.ToPoison)
		run("a decision", "a", down, 1, verdict.TryAgain)
		run("a copy after a failure", "", nil, 0, verdict.ToPoison)
		run("the decision's next attempt", "a", lost, 1, verdict.ToPoison)
		run("the decision once more", "a", nil, 0, verdict.ToPoison)
		run("another decision", "b", nil, 1, verdict.Done)
		run("a copy of what is done", "", nil, 0, verdict.Done)
	})
}
