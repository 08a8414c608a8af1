package look

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
)

// Pauses reads the pauses in force.
func Pauses(ctx context.Context, d *act.Desk) (map[string]pause.Pause, error) {
	p, err := pause.New(d.Store, pause.Config{})
	if err != nil {
		return nil, err
	}
	return p.List(ctx)
}

// PauseText tells of a pause: by whom it is, since when, until when, and why.
func PauseText(p pause.Pause) string {
	text := fmt.Sprintf("by %s, %s", p.By, act.Ago(p.Since))
	if !p.Until.IsZero() {
		text += "," + UntilWhen(p)
	}
	if p.Why != "" {
		text += ": " + p.Why
	}
	return text
}

// UntilWhen tells when a pause ends.
func UntilWhen(p pause.Pause) string {
	if p.Until.IsZero() {
		return ""
	}
	return fmt.Sprintf(" until %s, in %s", act.Clock(p.Until), act.Age(time.Until(p.Until)))
}

// Levels returns the queues that all their workers leave out at the level of their program, with the level from
// which they do, by what the workers have published last.
func Levels(ctx context.Context, d *act.Desk) (map[string]int, error) {
	all, err := catalog.ReadReports(ctx, d.Store)
	if err != nil {
		return nil, err
	}
	return LevelsOf(all), nil
}

// LevelsOf is Levels by reports that were read.
func LevelsOf(all []catalog.Report) map[string]int {
	newest := map[string]catalog.Report{} // by worker
	for _, p := range all {
		if before, known := newest[p.ID]; !known || p.Time.After(before.Time) {
			newest[p.ID] = p
		}
	}
	waits, consumed := map[string]int{}, map[string]bool{}
	for _, p := range newest {
		if p.Last {
			continue
		}
		for name, q := range p.Queues {
			consumed[name] = consumed[name] || q.WaitsFrom == 0
			waits[name] = max(waits[name], q.WaitsFrom)
		}
	}
	for name := range consumed {
		if consumed[name] {
			delete(waits, name)
		}
	}
	return waits
}

// LevelText tells from which level on a queue waits.
func LevelText(from int) string {
	return fmt.Sprintf("its workers leave it out from level %d on", from)
}

// Waiting is the subject of a sentence on ready messages, and its verb.
func Waiting(ready int64) string {
	if ready == 1 {
		return "1 message waits"
	}
	return fmt.Sprintf("%d messages wait", ready)
}
