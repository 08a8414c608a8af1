package instances

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// Lookers returns the lookers of a plan, or those of all plans that are known.
func Lookers(d *act.Desk, plan string) (all []*process.Looker, err error) {
	plans := d.Known.Plans()
	switch {
	case plan == "" && len(plans) == 0 && d.Unpublished() == "":
		return nil, act.Usage("the programs of this store have no plan; name one that had by --plan")
	case plan == "" && len(plans) == 0:
		return nil, act.Usage("name the plan by --plan%s", d.Unpublished())
	case plan == "":
	case len(plans) > 0 && !slices.Contains(plans, plan):
		return nil, act.Usage("unknown plan %s; want one of %s", act.Word(plan), strings.Join(plans, ", "))
	default:
		plans = []string{plan}
	}
	for _, plan := range plans {
		l, err := process.Look(d.Store, plan, act.Source)
		if err != nil {
			return nil, act.Usage("%w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// Find returns the looker of the plan that has an instance.
func Find(ctx context.Context, d *act.Desk, plan, id string) (found *process.Looker, err error) {
	all, err := Lookers(d, plan)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, l := range all {
		names = append(names, l.Plan())
		_, err := d.Store.Blobs(l.Plan()).Get(ctx, id, "")
		switch {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return nil, err
		case found != nil:
			return nil, act.Usage("the plans %s and %s have an instance %s; name one of them by --plan", found.Plan(), l.Plan(), storage.Quote(id))
		default:
			found = l
		}
	}
	if found == nil {
		return nil, act.Nothing("no instance %s of %s", storage.Quote(id), strings.Join(names, " or "))
	}
	return found, nil
}
