package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
)

// pauseFindings are about paused queues in which messages wait, and pauses that can't be read.
func pauseFindings(ctx context.Context, d *act.Desk, q queued, lag time.Duration) (all []Finding, err error) {
	paused, err := look.Pauses(ctx, d)
	if errors.Is(err, pause.ErrUnreadable) {
		return []Finding{Finding{Severity: Wrong, Check: "pauses", Text: "the pauses of queues can't be read: workers that run go on with what they knew, and those that start consume nothing"}.
			mended(d, "Find out who wrote blob queues in container pauses. Then pause the queues that shall be paused: %s. Or resume all: %s",
				act.Hint{Act: "queues pause", Flags: map[string]string{"repair": "true"}, Open: "QUEUE… --why TEXT"}, act.Hint{Act: "queues resume", Flags: map[string]string{"repair": "true"}, Open: "QUEUE"})}, nil
	}
	if err != nil {
		return nil, err
	}
	for i, name := range q.names {
		p, ok := paused[name]
		st := q.stats[i]
		if !ok || st.Ready <= 0 {
			continue
		}
		f := Finding{Severity: Note, Check: "pauses", Queue: name, Waits: []string{name}, Text: fmt.Sprintf("queue %s is paused %s. %s in it", name, look.PauseText(p), look.Waiting(st.Ready))}.
			mended(d, "When the reason is gone: %s", act.Hint{Act: "queues resume", Args: []string{name}})
		if st.Oldest > lag {
			f.Severity = Wrong
		}
		all = append(all, f)
	}
	return all, nil
}

// levelFindings are about optional queues in which messages wait.
func levelFindings(ctx context.Context, d *act.Desk, q queued, lag time.Duration) (all []Finding, err error) {
	waits, err := look.Levels(ctx, d)
	if err != nil {
		return nil, err
	}
	for i, name := range q.names {
		from, st := waits[name], q.stats[i]
		if from == 0 || st.Ready <= 0 {
			continue
		}
		f := Finding{Severity: Note, Check: "levels", Queue: name, Waits: []string{name}, Text: fmt.Sprintf("queue %s waits for its level: %s. %s in it", name, look.LevelText(from), look.Waiting(st.Ready))}.
			mended(d, "When there is time for it, lower the level: %s. If long queues have raised the level, it falls with them.", act.Hint{Act: "settings set", Args: []string{fmt.Sprintf("level=%d", from-1)}})
		if st.Oldest > lag {
			f.Severity = Wrong
		}
		all = append(all, f)
	}
	return all, nil
}
