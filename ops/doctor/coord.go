package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
)

// coordFindings are about counters, gates and locks that can't be read, and gates that nobody has looked at since their
// time came. A lock of a dead process is no finding: a process that waits for the lock takes it over.
func coordFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	for x, err := range atMost(mostSeen, ids.List(ctx, desk.Store)) {
		switch {
		case errors.Is(err, ids.ErrCorrupt):
			all = append(all, Finding{Severity: Wrong, Check: "counters", Text: fmt.Sprintf("counter %s can't be read, so programs get no number from it", x.Name),
				Fix: fmt.Sprintf("Find the largest number that was ever given out, and repair the counter: %s ids raise %s NUMBER --yes", desk.Command, act.ShellWord(x.Name))})
		case err != nil:
			return nil, err
		}
	}
	for g, err := range atMost(mostSeen, gate.List(ctx, desk.Store)) {
		switch {
		case err != nil && g.Name == "":
			return nil, err
		case err != nil:
			all = append(all, Finding{Severity: Wrong, Check: "gates", Text: fmt.Sprintf("gate %s can't be read, so programs get an error in place of waiting for it", g.Name),
				Fix: fmt.Sprintf("Close it: %s gates repair %s", desk.Command, act.ShellWord(g.Name))})
		case look.GateIsDue(g.State, time.Now().Add(-clocksApart)):
			all = append(all, Finding{Severity: Note, Check: "gates", Text: fmt.Sprintf("gate %s was to open at %s, and no program has looked at it since", g.Name, act.Clock(g.OpensAt)),
				Fix: "It opens when a program looks at it. Does one run?"})
		}
	}
	for x, err := range atMost(mostSeen, lease.List(ctx, desk.Store, look.NotUpdates)) {
		switch {
		case err != nil && x.Name == "":
			return nil, err
		case err != nil:
			all = append(all, Finding{Severity: Wrong, Check: "locks", Text: fmt.Sprintf("lock %s can't be read, so nobody gets it", x.Name),
				Fix: fmt.Sprintf("Find the largest fence in the documents that it guards, and repair the lock: %s locks raise %s FENCE", desk.Command, act.ShellWord(x.Name))})
		}
	}
	return all, nil
}

// guardFindings are about services that are away.
func guardFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	found, err := guard.Outages(ctx, desk.Store)
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		f := Finding{Severity: Wrong, Check: "guards", Text: fmt.Sprintf("the service of guard %s is away for all processes", s.Name),
			Fix: "Queues wait for it, and lose nothing. One call after another asks whether it is back, if a worker runs. Does the service work for others?"}
		if s.Asks {
			f.Severity, f.Text = Note, fmt.Sprintf("the service of guard %s asks all processes to wait", s.Name)
			f.Fix = "Queues wait for it, and lose nothing. Then one call asks whether all may go on, if a worker runs. A Rate keeps below what the service allows."
		}
		if s.Damaged {
			f.Text = fmt.Sprintf("the document of guard %s is damaged", s.Name)
			f.Fix = "The next process that looks replaces it, and one call asks whether the service is there."
		}
		if !s.All {
			f.Severity, f.Text = Note, fmt.Sprintf("some processes can't reach the service of guard %s, and others can", s.Name)
			f.Fix = "The metric millrace_guard_alone is 1 in those that can't: look at their network."
		}
		f.Fix += fmt.Sprintf(" If no program has the guard any more: %s guards close %s", desk.Command, act.ShellWord(s.Name))
		if !s.Since.IsZero() {
			f.Text += fmt.Sprintf(", since %s (%s)", act.Clock(s.Since), act.Ago(s.Since))
		}
		if s.Why != "" {
			f.Text += ": " + s.Why
		}
		all = append(all, f)
	}
	damaged, err := limit.Damaged(ctx, desk.Store)
	for _, name := range damaged {
		all = append(all, Finding{Severity: Note, Check: "guards", Text: fmt.Sprintf("the document of limit %s can't be read, so no process can join those that share it", name),
			Fix: "Nothing, if a process runs that has the limit: it replaces the document within 70 seconds."})
	}
	return all, err
}
