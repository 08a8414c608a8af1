package processes_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/process"
)

// A drawing has the steps in a table, and below it what can be done about those that are stuck. Text from outside is
// cleaned before it is measured.
func TestDraw(t *testing.T) {
	t.Parallel()
	s := &process.Stream{ID: "a b", Plan: "trip", Status: process.Stuck, Version: 2, Lines: []process.Line{
		{ID: "00", Name: "trip", Verb: "plan", Status: process.Stuck},
		{ID: "01", Name: "bo!ok", Depth: 1, Status: process.Completed},
		{ID: "02", Name: "think", Depth: 1, Status: process.Stuck, Msg: "outcome unknown", Items: 3, Left: 1, Unknown: true},
		{ID: "03", Name: "act", Depth: 1, Status: process.Stuck},
	}}
	got := processes.Draw(s, time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), "trips", 36, func(s string) string { return strings.ReplaceAll(s, "!", "<bang>") })
	want := strings.Split(`trip a b: stuck, version 2

ID  STEP        STATUS     TOOK
01  bo<bang>ok  completed
02  think       stuck
      1 of 3 items left
      outcome unknown
03  act         stuck

Step 02 think is stuck. Nobody knows
whether the effect of the attempts
of some items has happened. Look in
what the step calls, before you say
more:
- trips processes skip 'a b' 02: the
effect has happened: the step counts
as done, and the instance goes on.
- trips processes retry 'a b' 02:
the effect has not happened, or
happens once under one key: the step
is done again with the same key.
- trips processes fail 'a b' 02: the
effect has not happened, and nobody
shall try again: what was done
before is undone.
Step 03 act is stuck. trips
processes retry 'a b' 03 tries it
again; skip, rerun and cancel give
it up.`, "\n")
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
