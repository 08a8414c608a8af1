package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/spool"
	"github.com/millrace-go/millrace/storage"
)

// processFindings are about instances that are stuck, and about those that nobody has looked at in time.
func processFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	const overdue = 20 * time.Minute // a sweep every ten minutes asks those that are five late
	for _, plan := range desk.Known.Plans() {
		l, err := process.Look(desk.Store, plan, act.Source)
		if err != nil {
			return nil, err
		}
		var stuck, late []string
		seen, more := 0, ""
		for x, err := range l.Open(ctx) {
			if err != nil && x.ID == "" {
				return nil, err
			}
			if err != nil {
				continue // nudge and sweep write it anew
			}
			switch {
			case x.Status == process.Stuck:
				stuck = append(stuck, x.ID)
			case !x.Due.IsZero() && time.Since(x.Due) > overdue:
				late = append(late, x.ID)
			}
			if seen++; seen == mostEntries {
				more = "at least "
				break
			}
		}
		found := func(ids []string, how, fix string) {
			if n := len(ids); n > 0 {
				all = append(all, Finding{Severity: Wrong, Check: "processes", Text: fmt.Sprintf("plan %s: %s%s %s: %s", plan, more, areInstances(n), how, someOf(ids)), Fix: fix})
			}
		}
		found(stuck, "stuck", fmt.Sprintf("%s processes list --plan %s --stuck shows why. Then retry, skip, rerun or cancel them.", desk.Command, plan))
		found(late, fmt.Sprintf("overdue: the alarm of each was due more than %v ago", overdue),
			fmt.Sprintf("Does a worker of the plan run? It looks at them within ten minutes, and %s processes nudge at once.", desk.Command))
	}
	return all, nil
}

// mostEntries is how many open instances of a plan doctor looks at. A request reads many.
const mostEntries = 20_000

func areInstances(n int) string {
	if n == 1 {
		return "1 instance is"
	}
	return fmt.Sprintf("%d instances are", n)
}

// someOf names the first of many.
func someOf(ids []string) string {
	const most = 5
	var words []string
	for _, id := range ids[:min(len(ids), most)] {
		words = append(words, storage.Quote(id))
	}
	if len(ids) > most {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

// scheduleFindings are about schedules that can't be read, that nobody runs, and whose last run has failed.
func scheduleFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	found := func(text, fix string) {
		all = append(all, Finding{Severity: Wrong, Check: "schedules", Text: text, Fix: fix})
	}
	for x, err := range atMost(mostSeen, schedule.List(ctx, desk.Store)) {
		name := act.ShellWord(x.Name)
		switch {
		case err != nil && x.Name == "":
			return nil, err
		case err != nil:
			found(fmt.Sprintf("schedule %s can't be read, so it doesn't run", name), fmt.Sprintf("Delete blob %s in container schedules. The next worker that starts registers the schedule again.", name))
		case x.State == schedule.Orphaned && x.Paused == nil:
			found(fmt.Sprintf("schedule %s has stopped: no worker has had it since %s", name, act.Clock(x.Orphaned.At)), fmt.Sprintf("Start a worker of a version of %s that has it. If it is gone for good, pause it.", x.Program))
		case x.State == schedule.Overdue:
			found(fmt.Sprintf("schedule %s is overdue: it was due at %s", name, act.ClockIn(x.Next)), fmt.Sprintf("Does a worker of %s run? If its queue %s holds nothing that is due, start one again: a start sends the message that is missing.", x.Program, x.Queue))
		}
		if len(x.Runs) > 0 && x.Runs[0].Failed != "" {
			found(fmt.Sprintf("the last run of schedule %s, due at %s, has failed", name, act.Clock(x.Runs[0].Due)), fmt.Sprintf("%s schedules show %s tells why.", desk.Command, name))
		}
	}
	return all, nil
}

// spoolFindings are about messages that programs keep on their own machines although the store is there.
func spoolFindings(ctx context.Context, desk *act.Desk, lag time.Duration) (all []Finding, err error) {
	found, err := spool.Reports(ctx, desk.Store)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		where := fmt.Sprintf("the spool %s of %s on %s", r.File, r.Program, r.Host)
		seen := fmt.Sprintf(" (%s ago)", act.Age(time.Since(r.At)))
		if r.Fault != "" {
			all = append(all, Finding{Severity: Wrong, Check: "spools", Program: r.Program, Text: fmt.Sprintf("%s takes nothing%s: %s", where, seen, r.Fault),
				Fix: "The program would refuse commands while the store is away, and what is in the file may be lost. Mend the disk, or stop the program, put the file back, and start it again."})
		}
		if r.Refused > 0 {
			all = append(all, Finding{Severity: Wrong, Check: "spools", Program: r.Program, Text: fmt.Sprintf("%s in %s can't be sent%s: %s", act.Count(int(r.Refused), "message"), where, seen, r.Reason),
				Fix: fmt.Sprintf("They stay in that file, and are tried again every ten minutes and at each start. Mend the cause: for a kind without a route, start a version of the program that has one. On that machine %s spool list FILE shows them, and spool discard deletes them.", desk.Command)})
		}
		if r.Waiting > 0 && time.Since(r.Oldest) > lag {
			all = append(all, Finding{Severity: Wrong, Check: "spools", Program: r.Program, Text: fmt.Sprintf("%s in %s for %s although the store is there%s", look.Waiting(r.Waiting), where, act.Age(time.Since(r.Oldest)), seen),
				Fix: "Does the program run, and may it write to all its queues? Its log has the store's errors."})
		}
	}
	return all, nil
}
