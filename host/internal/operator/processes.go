package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/host/internal/processes"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// A processCall is a run of a verb that shows instances of plans, or acts on them.
type processCall struct{ *call }

// instanceLine is what -json prints of an instance in a list.
type instanceLine struct {
	Plan string `json:"plan"`
	process.Entry
}

// versionLine is what -json prints of a version of a plan.
type versionLine struct {
	Plan string `json:"plan"`
	process.Known
}

// plans returns the plans that anybody knows, sorted.
func (k *knowledge) plans() []string {
	all := map[string]bool{}
	for _, kind := range k.kinds() {
		if plan, ok := process.PlanOf(channel.Kind(kind)); ok {
			all[plan] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// plans returns the plan of -plan, or all that are known.
func (c processCall) plans(verb string) ([]string, error) {
	all := c.known.plans()
	switch {
	case c.plan == "" && len(all) == 0 && c.unpublished() == "":
		return nil, usage("%s: the programs of this store have no plan; name one that had by -plan", verb)
	case c.plan == "" && len(all) == 0:
		return nil, usage("%s: name the plan by -plan%s", verb, c.unpublished())
	case c.plan == "" || slices.Contains(all, c.plan):
	case len(all) > 0:
		return nil, usage("%s: unknown plan %s; want one of %s", verb, boot.Word(c.plan), strings.Join(all, ", "))
	}
	if c.plan != "" {
		return []string{c.plan}, nil
	}
	return all, nil
}

// lookers returns the lookers of some plans.
func (c processCall) lookers(verb string) (all []*process.Looker, err error) {
	plans, err := c.plans(verb)
	if err != nil {
		return nil, err
	}
	for _, plan := range plans {
		l, err := process.Look(c.store, plan, source)
		if err != nil {
			return nil, usage("%s: %w", verb, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// find returns the looker of the plan that has an instance.
func (c processCall) find(ctx context.Context, verb, id string) (*process.Looker, error) {
	all, err := c.lookers(verb)
	if err != nil {
		return nil, err
	}
	var found *process.Looker
	for _, l := range all {
		_, err := c.store.Blobs(l.Plan()).Get(ctx, id, "")
		switch {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return nil, err
		case found != nil:
			return nil, usage("%s: the plans %s and %s have an instance %s; name one of them by -plan", verb, found.Plan(), l.Plan(), storage.Quote(id))
		default:
			found = l
		}
	}
	if found == nil {
		return nil, nothing("%s: no instance %s of %s", verb, storage.Quote(id), orOf(all))
	}
	return found, nil
}

// orOf names plans as alternatives.
func orOf(all []*process.Looker) string {
	var names []string
	for _, l := range all {
		names = append(names, l.Plan())
	}
	return strings.Join(names, " or ")
}

// instanceNames are the IDs of the instances that have not ended.
func instanceNames(ctx context.Context, c *call) (names []string) {
	all, err := processCall{c}.lookers("")
	if err != nil {
		return nil
	}
	for _, l := range all {
		names = append(names, namesOf(l.Open(ctx), func(x process.Entry) string { return x.ID })...)
	}
	return names
}

// finalFor is how far -since goes back where the status asked for is one of instances that have ended.
const finalFor = 24 * time.Hour

// query is what processes list looks for.
func (o options) query(now time.Time) process.Query {
	q := process.Query{Status: process.Status(o.status), Waits: o.waits, Prefix: o.prefix, Tags: o.tags, Now: now}
	switch {
	case o.since > 0:
		q.Since = now.Add(-o.since)
	case q.Status.Final():
		q.Since = now.Add(-finalFor)
	}
	if o.stuck {
		q.Status = process.Stuck
	}
	return q
}

// processesList lists instances.
func processesList(ctx context.Context, x *call) error {
	c := processCall{x}
	lookers, err := c.lookers("processes list")
	if err != nil {
		return err
	}
	q := c.query(time.Now())
	lines, err := c.search(ctx, lookers, q)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if c.json {
			if err := c.out.line(line); err != nil {
				return err
			}
		}
	}
	switch {
	case c.json:
	case len(lines) == 0 && q.Status == "" && q.Since.IsZero():
		c.out.printf("No instances that have not ended. -since 24h also lists those that have.\n")
	case len(lines) == 0:
		c.out.printf("No instances.\n")
	case q.Status == process.Stuck:
		c.printStuck(lines)
	default:
		c.printInstances(lines, len(lookers) > 1, q.Now)
	}
	return nil
}

// search returns the instances that a query asks for, as many as the flags allow.
func (c processCall) search(ctx context.Context, lookers []*process.Looker, q process.Query) (lines []instanceLine, err error) {
	for _, l := range lookers {
		for x, err := range l.Find(ctx, q) {
			switch {
			case err != nil:
				return nil, err
			case len(lines) == c.limit:
				_, _ = fmt.Fprintf(c.progress, "Note: there are more. -limit lists more, and -prefix, -status, -waits and -tag fewer.\n")
				return lines, nil
			}
			lines = append(lines, instanceLine{l.Plan(), x})
		}
	}
	return lines, nil
}

// printInstances prints instances for people.
func (c processCall) printInstances(lines []instanceLine, plans bool, now time.Time) {
	head := []string{"ID", "STATUS", "AGE", "WAITS FOR, OR ENDED", "TAGS"}
	var rows [][]string
	for _, x := range lines {
		is := strings.Join(x.Waits, ", ")
		age := now.Sub(x.Created)
		if !x.Ended.IsZero() {
			is, age = ago(x.Ended), x.Ended.Sub(x.Created)
		}
		if x.Status == process.Stuck {
			is = "at " + processes.At(x.Entry)
		}
		if x.Error != "" {
			is = strings.TrimPrefix(is+": "+x.Error, ": ")
		}
		row := []string{x.ID, string(x.Status), processes.Took(age), short(orUnknown(is)), short(orUnknown(processes.Tags(x.Tags)))}
		if plans {
			row = append([]string{x.Plan}, row...)
		}
		rows = append(rows, row)
	}
	if plans {
		head = append([]string{"PLAN"}, head...)
	}
	c.out.table(head, rows)
}

// printStuck prints stuck instances for people, and what can be done about them.
func (c processCall) printStuck(lines []instanceLine) {
	var rows [][]string
	for _, x := range lines {
		rows = append(rows, []string{x.Plan, x.ID, orUnknown(processes.At(x.Entry)), ago(x.Since), short(orUnknown(x.Error))})
	}
	c.out.table([]string{"PLAN", "ID", "STEP", "SINCE ABOUT", "WHY"}, rows)
	id, _, _ := strings.Cut(lines[0].ID, "/")
	c.out.printf("\n%s processes show %s shows all of the first one. retry, skip, rerun and cancel go on with it.\n", c.Command, boot.Clean(boot.ShellWord(id)))
}

// processesVersions lists the versions of plans.
func processesVersions(ctx context.Context, x *call) error {
	c := processCall{x}
	lookers, err := c.lookers("processes versions")
	if err != nil {
		return err
	}
	var rows [][]string
	for _, l := range lookers {
		all, err := l.Versions(ctx)
		if err != nil {
			return err
		}
		for _, v := range all {
			if c.json {
				if err := c.out.line(versionLine{l.Plan(), v}); err != nil {
					return err
				}
			}
			since := unknown
			if !v.Since.IsZero() {
				since = clock(v.Since)
			}
			rows = append(rows, []string{l.Plan(), fmt.Sprint(v.Version), since, fmt.Sprint(v.Open), fmt.Sprint(v.Stuck)})
		}
	}
	switch {
	case c.json:
	case len(rows) == 0:
		c.out.printf("No versions.\n")
	default:
		c.out.table([]string{"PLAN", "VERSION", "SINCE", "OPEN", "STUCK"}, rows)
	}
	return nil
}

// processFindings are about instances that are stuck, and about those that nobody has looked at in time.
func (c examination) processFindings(ctx context.Context) (all []finding, err error) {
	const overdue = 20 * time.Minute // a sweep every ten minutes asks those that are five late
	for _, plan := range c.known.plans() {
		l, err := process.Look(c.store, plan, source)
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
		if n := len(stuck); n > 0 {
			all = append(all, finding{Severity: wrong, Check: "processes", Text: fmt.Sprintf("plan %s: %s%s stuck: %s", plan, more, areInstances(n), some(stuck)),
				Fix: fmt.Sprintf("%s processes list -plan %s -stuck shows why. Then retry, skip, rerun or cancel them.", c.Command, plan)})
		}
		if n := len(late); n > 0 {
			all = append(all, finding{Severity: wrong, Check: "processes", Text: fmt.Sprintf("plan %s: %s%s overdue: the alarm of each was due more than %v ago: %s", plan, more, areInstances(n), overdue, some(late)),
				Fix: fmt.Sprintf("Does a worker of the plan run? It looks at them within ten minutes, and %s processes nudge at once.", c.Command)})
		}
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

// some names the first of many.
func some(ids []string) string {
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
