package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/process"
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
		var stuck, unknown, late []string
		var last process.Entry // of unknown
		seen, more := 0, ""
		for x, err := range l.Open(ctx) {
			if err != nil && x.ID == "" {
				return nil, err
			}
			if err != nil {
				continue // nudge and sweep write it anew
			}
			switch {
			case x.Status == process.Stuck && x.Unknown:
				unknown, last = append(unknown, x.ID), x
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
		found := func(ids []string, state, how string) Finding {
			return Finding{Severity: Wrong, Check: "processes", About: plan + " " + state, Text: fmt.Sprintf("plan %s: %s%s %s: %s", plan, more, areInstances(len(ids)), how, someOf(ids))}
		}
		if len(stuck) > 0 {
			of := map[string]string{"plan": plan, "stuck": "true"}
			all = append(all, found(stuck, "stuck", "stuck").mended(desk, "%s shows why. Then retry, skip, rerun or cancel them.", act.Hint{Act: "processes list", Flags: of}).
				and(act.Hint{Act: "processes retry", Flags: of}))
		}
		if len(unknown) > 0 {
			all = append(all, found(unknown, "unknown", "stuck, because nobody knows whether the effect of a step has happened").doubted(desk, plan, len(unknown), last))
		}
		if len(late) > 0 {
			all = append(all, found(late, "overdue", fmt.Sprintf("overdue: the alarm of each was due more than %v ago", overdue)).
				mended(desk, "Does a worker of the plan run? It looks at them within ten minutes, and %s at once.", nudge(plan, late)))
		}
	}
	return all, nil
}

// doubted says what to do about instances that are stuck because nobody knows whether the effect of a step has
// happened. x is one of them.
func (f Finding) doubted(desk *act.Desk, plan string, n int, x process.Entry) Finding {
	if n > 1 {
		return f.mended(desk, "%s shows them. Look in what the step calls, and then say of each: skip if the effect has happened, fail or retry if it has not.",
			act.Hint{Act: "processes list", Flags: map[string]string{"plan": plan, "stuck": "true"}})
	}
	of, step := map[string]string{"plan": plan}, []string{x.ID, x.Step}
	f.Text += fmt.Sprintf(" (step %s, %s ago)", strings.TrimSpace(x.Step+" "+x.Name), act.Age(time.Since(x.Since)))
	return f.mended(desk, "%s tells what is known. Look in what the step calls. If the effect has happened: %s. If it has not: %s does the step again, or %s gives up, and undoes what was done before.",
		act.Hint{Act: "processes show", Args: []string{x.ID}, Flags: of, Means: "what is known of the step, and of all others"},
		act.Hint{Act: "processes skip", Args: step, Flags: of, Means: processes.SkipMeans},
		act.Hint{Act: "processes retry", Args: step, Flags: of, Means: processes.RetryMeans},
		act.Hint{Act: "processes fail", Args: step, Flags: of, Means: processes.FailMeans})
}

// nudge lets an instance look at its deadlines.
func nudge(plan string, ids []string) act.Hint {
	h := act.Hint{Act: "processes nudge", Flags: map[string]string{"plan": plan}, Open: "ID"}
	if len(ids) == 1 {
		h.Args, h.Open = ids, ""
	}
	return h
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
