package doctor

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/millrace-go/millrace/ops/act"
)

// A Finding is something that doctor has found.
type Finding struct {
	Severity string `json:"severity"`
	// Check is bulk, collections, consumers, kinds, lag, lanes, levels, poison, queues, clocks, versions, log, writers,
	// catalog, schedules, files, guards, counters, gates, locks, pauses, processes, settings, spools, turns, engine or
	// listeners.
	Check   string `json:"check"`
	Queue   string `json:"queue,omitempty"`
	Program string `json:"program,omitempty"`
	Text    string `json:"text"`
	Fix     string `json:"fix"`

	Acts  []act.Hint `json:"acts,omitempty"`  // that help, as Fix has them
	About string     `json:"about,omitempty"` // names what else than the queue and the program the finding is about
	Waits []string   `json:"waits,omitempty"` // the queues whose messages wait because of it
}

// Key names what a finding is about: the check with the queue, the program and the thing. Numbers, ages and the
// severity may change while the key stays.
func (f Finding) Key() string {
	return fmt.Sprintf("%s %q %q %q", f.Check, f.Queue, f.Program, f.About)
}

// Severities of a finding.
const (
	Wrong = "wrong" // somebody should do something
	Note  = "note"  // good to know
)

// Lag is how long messages may wait, where nobody says anything else.
const Lag = 5 * time.Minute

// Examine finds what is wrong, the worst first. lag is how long messages may wait. Beside the findings, an error says
// what couldn't be looked at.
func Examine(ctx context.Context, desk *act.Desk, lag time.Duration) ([]Finding, error) {
	x := Look(ctx, desk, lag)
	return x.Findings, x.Err()
}

const (
	clocksApart = time.Minute // more than a slow write takes
	besideAfter = 25 * time.Hour
	mostSeen    = 1000      // counters, and as many gates, locks, schedules and settings: each costs a request
	logTooLarge = 256 << 20 // bytes of a log of SQLite that no copy into the file has emptied
)

// atMost yields the first things of a list, with their errors.
func atMost[T any](n int, list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		seen := 0
		for x, err := range list {
			if seen++; !yield(x, err) || seen == n {
				return
			}
		}
	}
}

// listFindings are about a store that doesn't list its queues, and say why.
func listFindings(fault error) []Finding {
	if fault == nil {
		return nil
	}
	return []Finding{{Severity: Note, Check: "queues", Text: fmt.Sprintf("queues of which no program tells are not looked at, because the store doesn't list its queues: %v", fault),
		Fix: "Run doctor where it has the right to list them."}}
}
