package acts

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
)

// readLevels returns the queues that all their workers leave out at the level of their program, with the level from
// which they do, by what the workers have published last.
func readLevels(ctx context.Context, d *act.Desk) (map[string]int, error) {
	all, err := catalog.ReadReports(ctx, d.Store)
	if err != nil {
		return nil, err
	}
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
	return waits, nil
}

// levelFindings are about optional queues in which messages wait.
func levelFindings(ctx context.Context, d *act.Desk, names []string, stats []storage.Stats, lag time.Duration) (all []Finding, err error) {
	waits, err := readLevels(ctx, d)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		from, st := waits[name], stats[i]
		if from == 0 || st.Ready <= 0 {
			continue
		}
		f := Finding{Severity: Note, Check: "levels", Queue: name, Text: fmt.Sprintf("queue %s waits for its level: %s. %s in it", name, levelOf(from), waiting(st.Ready)),
			Fix: fmt.Sprintf("When there is time for it, lower the level: %s settings set level=%d. If long queues have raised the level, it falls with them.", d.Command, from-1)}
		if st.Oldest > lag {
			f.Severity = Wrong
		}
		all = append(all, f)
	}
	return all, nil
}

func levelOf(from int) string { return fmt.Sprintf("its workers leave it out from level %d on", from) }
