package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
)

// coordFindings are about counters, gates and locks that can't be read, and gates that nobody has looked at since their
// time came. A lock of a dead process is no finding: a process that waits for the lock takes it over.
func coordFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	for x, err := range atMost(mostSeen, ids.List(ctx, desk.Store)) {
		switch {
		case errors.Is(err, ids.ErrCorrupt):
			all = append(all, Finding{Severity: Wrong, Check: "counters", About: x.Name, Text: fmt.Sprintf("counter %s can't be read, so programs get no number from it", x.Name)}.
				mended(desk, "Find the largest number that was ever given out, and repair the counter: %s", act.Hint{Act: "ids raise", Args: []string{x.Name}, Open: "NUMBER --yes --why TEXT"}))
		case err != nil:
			return nil, err
		}
	}
	for g, err := range atMost(mostSeen, gate.List(ctx, desk.Store)) {
		switch {
		case err != nil && g.Name == "":
			return nil, err
		case err != nil:
			all = append(all, Finding{Severity: Wrong, Check: "gates", About: g.Name, Text: fmt.Sprintf("gate %s can't be read, so programs get an error in place of waiting for it", g.Name)}.
				mended(desk, "Close it: %s", act.Hint{Act: "gates repair", Args: []string{g.Name}}))
		case look.GateIsDue(g.State, time.Now().Add(-clocksApart)):
			all = append(all, Finding{Severity: Note, Check: "gates", About: g.Name, Text: fmt.Sprintf("gate %s was to open at %s, and no program has looked at it since", g.Name, act.Clock(g.OpensAt)),
				Fix: "It opens when a program looks at it. Does one run?"}.and(act.Hint{Act: "gates open", Args: []string{g.Name}}))
		}
	}
	for x, err := range atMost(mostSeen, lease.List(ctx, desk.Store, look.NotUpdates)) {
		switch {
		case err != nil && x.Name == "":
			return nil, err
		case err != nil:
			all = append(all, Finding{Severity: Wrong, Check: "locks", About: x.Name, Text: fmt.Sprintf("lock %s can't be read, so nobody gets it", x.Name)}.
				mended(desk, "Find the largest fence in the documents that it guards, and repair the lock: %s", act.Hint{Act: "locks raise", Args: []string{x.Name}, Open: "FENCE --why TEXT"}))
		}
	}
	return all, nil
}
