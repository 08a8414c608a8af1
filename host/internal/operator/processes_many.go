package operator

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/host/internal/processes"
	"github.com/millrace-go/millrace/process"
)

// firstStep is the path of a plan's first step.
const firstStep = "01"

// selects reports that the flags select instances.
func (o *options) selects() bool {
	return o.stuck || o.status != "" || o.waits != "" || o.since > 0 || o.prefix != "" || len(o.tags) > 0
}

// selecting gives a verb that acts on an instance the flags that select many. least and most are how many arguments it
// has beside an instance's ID.
func selecting(v *verb, least, most int) *verb {
	one := v.flags
	v.least, v.check = 0, checkProcesses
	v.flags = func(set *flag.FlagSet, o *options) {
		one(set, o)
		selectionFlags(set, o)
		set.BoolVar(&o.dryRun, "dry-run", false, "ask nothing, and print what would be asked")
	}
	v.before = func(ctx context.Context, c *call) error {
		switch n := len(c.args); {
		case !c.selects() && n < 1+least:
			return usage("%s: want %s, or flags that select instances, such as -since 2h", v.name, v.args)
		case !c.selects() && c.dryRun:
			return usage("%s: -dry-run is for flags that select instances, such as -since 2h", v.name)
		case c.selects() && n > most:
			return usage("%s: want one instance by its ID, or those that flags select, not both", v.name)
		}
		return checkInstance(ctx, c)
	}
	return v
}

// stuckOf does something with each step of an instance that is stuck.
func stuckOf(ctx context.Context, do func(o process.Operator, ctx context.Context, id, step string) (process.Asked, error)) askMany {
	return func(l *process.Looker, o process.Operator, id string) (all []process.Asked, err error) {
		s, err := l.Stream(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, x := range processes.Stuck(s) {
			asked, err := do(o, ctx, id, x.ID)
			if err != nil {
				return all, err
			}
			all = append(all, asked)
		}
		return all, nil
	}
}

// askMany asks an instance for something: of each of its steps that are concerned.
type askMany func(*process.Looker, process.Operator, string) ([]process.Asked, error)

// askedLine is what an instance was asked, and what has become of it.
type askedLine struct {
	actLine
	asked  process.Asked
	looker *process.Looker // nil: it was not asked
}

// actOnAll does something with the instances that the flags select, by default those of a status. One that can't be
// asked keeps none of the others from it.
func (c processCall) actOnAll(ctx context.Context, verb string, status process.Status, do askMany) error {
	q := c.query(time.Now())
	if q.Status == "" {
		if q.Status = status; status.Final() && q.Since.IsZero() {
			q.Since = q.Now.Add(-finalFor)
		}
	}
	all, err := c.askAll(ctx, verb, q, do)
	if err == nil && c.wait > 0 {
		err = c.awaitAll(ctx, all)
	}
	if err != nil {
		return err
	}
	failed := 0
	var rows [][]string
	for _, x := range all {
		if x.Result == actRefused || x.Result == actWaits {
			failed++
		}
		if c.json {
			if err := c.out.line(x.actLine); err != nil {
				return err
			}
		}
		rows = append(rows, []string{x.Plan, x.ID, orUnknown(x.Step), x.Result, short(orUnknown(x.Text))})
	}
	switch {
	case c.json:
	case len(rows) == 0:
		c.out.printf("No instances.\n")
	default:
		c.out.table([]string{"PLAN", "ID", "STEP", "RESULT", "TEXT"}, rows)
	}
	if failed > 0 {
		return fmt.Errorf("%s: %d of %d are not done", verb, failed, len(all))
	}
	return nil
}

// askAll asks the instances that a query finds, or only names them.
func (c processCall) askAll(ctx context.Context, verb string, q process.Query, do askMany) (all []askedLine, err error) {
	lookers, err := c.lookers(verb)
	if err != nil {
		return nil, err
	}
	for _, l := range lookers {
		seen := map[string]bool{} // an instance has a row for each part that is stuck
		for x, err := range l.Find(ctx, q) {
			if err != nil {
				return nil, err
			}
			id, _, _ := strings.Cut(x.ID, "/")
			if seen[id] || !x.Since.IsZero() && x.Since.Before(q.Since) {
				continue
			}
			seen[id] = true
			line := actLine{Plan: l.Plan(), ID: id, Result: selected}
			if c.dryRun {
				all = append(all, askedLine{actLine: line})
				continue
			}
			some, err := do(l, l.Operator(coordCall(c).author(), c.why), id)
			for _, x := range some {
				all = append(all, askedLine{actLine{Plan: l.Plan(), ID: x.ID, Do: x.Do, Step: x.Step, Result: actAsked}, x, l})
			}
			if err != nil {
				line.Result, line.Text = actRefused, err.Error()
				all = append(all, askedLine{actLine: line})
			}
		}
	}
	return all, nil
}

// awaitAll waits for the answers, as long as -wait says for all of them.
func (c processCall) awaitAll(ctx context.Context, all []askedLine) error {
	end := time.Now().Add(c.wait)
	for i := range all {
		if all[i].looker == nil {
			continue
		}
		c.wait = max(time.Until(end), time.Millisecond)
		if err := c.await(ctx, all[i].looker, all[i].asked, &all[i].actLine); err != nil {
			return err
		}
	}
	return nil
}
