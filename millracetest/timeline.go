package millracetest

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// Timeline writes an instance of a plan down, for a comparison with what a test wants: a line for it, and one for each
// step, in the order of the plan. Times count from its start, in whole seconds.
//
//	o17 aborted 0s to 48h0m0s: picked: no end within 48h0m0s
//	01 reserve undone    0s, undone 48h0m0s
//	02 charge  undone    0s to 3s, attempt 3, undone 48h0m0s
//	03 pack    completed 3s, 3 items
//	04 picked  aborted   3s to 48h0m0s: no end within 48h0m0s
func Timeline(t testing.TB, s *storage.Store, plan, id string) string {
	t.Helper()
	l, err := process.Look(s, plan, source)
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.Stream(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s%s\n", x.ID, x.Status, between(x.Created, x.Created, x.Ended), because(x.Msg))
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	for _, line := range x.Lines[1:] { // the first one is the instance
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", line.ID, line.Name, line.Status, details(x.Created, line))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, n := range x.Notes {
		fmt.Fprintf(&b, "%s %s\n", since(x.Created, n.At), strings.Join(nonempty(n.Do, n.Path, n.By, n.Why), " "))
	}
	return b.String()
}

// details says when a step began and ended, and how.
func details(start time.Time, x process.Line) string {
	all := []string{between(start, x.Created, x.Timestamp)}
	if x.Attempt > 1 {
		all = append(all, fmt.Sprintf("attempt %d", x.Attempt))
	}
	if x.Items > 0 {
		all = append(all, fmt.Sprintf("%d items", x.Items))
	}
	if x.Failed > 0 {
		all = append(all, fmt.Sprintf("%d failed", x.Failed))
	}
	for _, u := range x.Undos {
		late := ""
		if u.Late {
			late = "late, "
		}
		all = append(all, fmt.Sprintf("%s%s %s%s", late, u.Status, between(start, u.Created, u.Ended), because(u.Msg)))
	}
	if x.Status == process.Completed || x.Status == process.Undone { // its last failure is over
		x.Msg = ""
	}
	return strings.Join(all, ", ") + because(x.Msg)
}

func between(start, from, to time.Time) string {
	switch first := since(start, from); {
	case to.IsZero():
		return "from " + first
	case first == since(start, to):
		return first
	default:
		return first + " to " + since(start, to)
	}
}

func since(start, t time.Time) string { return t.Sub(start).Round(time.Second).String() }

func because(msg string) string {
	if msg == "" {
		return ""
	}
	return ": " + msg
}

func nonempty(all ...string) (some []string) {
	for _, s := range all {
		if s != "" {
			some = append(some, s)
		}
	}
	return some
}
