package doctor

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
)

// A Finding is something that doctor has found.
type Finding struct {
	Severity string `json:"severity"`
	// Check is collections, consumers, kinds, lag, lanes, levels, poison, queues, clocks, versions, log, writers, catalog,
	// schedules, guards, counters, gates, locks, pauses, processes, settings, spools, turns or listeners.
	Check   string `json:"check"`
	Queue   string `json:"queue,omitempty"`
	Program string `json:"program,omitempty"`
	Text    string `json:"text"`
	Fix     string `json:"fix"`
}

// Severities of a finding.
const (
	Wrong = "wrong" // somebody should do something
	Note  = "note"  // good to know
)

// Examine finds what is wrong, the worst first. lag is how long messages may wait.
func Examine(ctx context.Context, desk *act.Desk, lag time.Duration) ([]Finding, error) {
	names, poisoned, err := look.Queues(ctx, desk)
	if err != nil {
		return nil, err
	}
	names, stats, unlisted, err := look.WithUnseen(ctx, desk, names)
	if err != nil {
		return nil, err
	}
	pauses, err := pauseFindings(ctx, desk, names, stats, lag)
	if err != nil {
		return nil, err
	}
	levels, err := levelFindings(ctx, desk, names, stats, lag)
	if err != nil {
		return nil, err
	}
	held := slices.Concat(pauses, levels)
	all := slices.Concat(withoutLagOf(held, programFindings(desk, names, stats, poisoned, lag)), logFindings(desk.File), held)
	for _, find := range []func(context.Context, *act.Desk) ([]Finding, error){
		writerFindings, listenerFindings, laneFindings,
		func(ctx context.Context, desk *act.Desk) ([]Finding, error) { return spoolFindings(ctx, desk, lag) },
		guardFindings, scheduleFindings, coordFindings, processFindings, settingsFindings,
	} {
		more, err := find(ctx, desk)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	turns, err := turnFindings(ctx, desk, names, lag)
	if err != nil {
		return nil, err
	}
	all = append(all, turns...)
	all = append(all, listFindings(unlisted)...)
	slices.SortStableFunc(all, func(a, b Finding) int { return -cmp.Compare(a.Severity, b.Severity) }) // wrong before note
	return all, nil
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
