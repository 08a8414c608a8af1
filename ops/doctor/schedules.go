package doctor

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/schedule"
)

// scheduleFindings are about schedules that can't be read, that nobody runs, and whose last run has failed.
func scheduleFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	found := func(about, text, fix string, acts ...act.Hint) {
		all = append(all, Finding{Severity: Wrong, Check: "schedules", About: about, Text: text, Fix: fix, Acts: acts})
	}
	for x, err := range atMost(mostSeen, schedule.List(ctx, desk.Store)) {
		name := act.ShellWord(x.Name)
		switch {
		case err != nil && x.Name == "":
			return nil, err
		case err != nil:
			found(x.Name, fmt.Sprintf("schedule %s can't be read, so it doesn't run", name), fmt.Sprintf("Delete blob %s in container schedules. The next worker that starts registers the schedule again.", name))
		case x.State == schedule.Orphaned && x.Paused == nil:
			found(x.Name, fmt.Sprintf("schedule %s has stopped: no worker has had it since %s", name, act.Clock(x.Orphaned.At)), fmt.Sprintf("Start a worker of a version of %s that has it. If it is gone for good, pause it.", x.Program), act.Hint{Act: "schedules pause", Args: []string{x.Name}})
		case x.State == schedule.Overdue:
			found(x.Name, fmt.Sprintf("schedule %s is overdue: it was due at %s", name, act.ClockIn(x.Next)), fmt.Sprintf("Does a worker of %s run? If its queue %s holds nothing that is due, start one again: a start sends the message that is missing.", x.Program, x.Queue), act.Hint{Act: "schedules show", Args: []string{x.Name}})
		}
		if len(x.Runs) > 0 && x.Runs[0].Failed != "" {
			all = append(all, Finding{Severity: Wrong, Check: "schedules", About: "the last run of " + x.Name, Text: fmt.Sprintf("the last run of schedule %s, due at %s, has failed", name, act.Clock(x.Runs[0].Due))}.
				mended(desk, "%s tells why.", act.Hint{Act: "schedules show", Args: []string{x.Name}}))
		}
	}
	return all, nil
}
