package acts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/instances"
	"github.com/millrace-go/millrace/process"
)

// firstStep is the path of a plan's first step.
const firstStep = "01"

// retryInstances tries the stuck step of an instance again, or all that are stuck of the instances that are selected.
func retryInstances(ctx context.Context, c *act.Call, in *instanceInput) error {
	if !in.Selects() {
		return onStep(ctx, c, in, process.Operator.Retry)
	}
	return actOnAll(ctx, c, in, process.Stuck, func(l *process.Looker, o process.Operator, id string) (all []process.Asked, err error) {
		s, err := l.Stream(ctx, id)
		if err != nil {
			return nil, err
		}
		var doubts []error
		for _, x := range processes.Stuck(s) {
			if x.Doubt != nil {
				doubts = append(doubts, fmt.Errorf("nobody knows what step %s has done: look, and say so by skip or fail, or retry it by its ID", x))
				continue
			}
			asked, err := o.Retry(ctx, id, x.ID)
			if err != nil {
				return all, err
			}
			all = append(all, asked)
		}
		return all, errors.Join(doubts...)
	})
}

// rerunInstances runs an instance again from a step on, or the instances that are selected. Then the only word is the
// step.
func rerunInstances(ctx context.Context, c *act.Call, in *instanceInput) error {
	if !in.Selects() {
		return onStep(ctx, c, in, process.Operator.Rerun)
	}
	return actOnAll(ctx, c, in, process.Aborted, func(l *process.Looker, o process.Operator, id string) ([]process.Asked, error) {
		step, err := instances.Step(ctx, c.Desk, l, id, cmp.Or(in.step, in.id, firstStep))
		if err != nil {
			return nil, err
		}
		asked, err := o.Rerun(ctx, id, step)
		if err != nil {
			return nil, err
		}
		return []process.Asked{asked}, nil
	})
}

// askMany asks an instance for something: of each of its steps that are concerned.
type askMany func(*process.Looker, process.Operator, string) ([]process.Asked, error)

// askedInstance is what an instance was asked, and what has become of that.
type askedInstance struct {
	InstanceAct
	asked  process.Asked
	looker *process.Looker // nil: it was not asked
}

// actOnAll does something with the instances that are selected, by default those of a status. An instance that can't be
// asked holds up no other instance.
func actOnAll(ctx context.Context, c *act.Call, in *instanceInput, status process.Status, do askMany) error {
	all, err := askAll(ctx, c, in, status, do)
	if err != nil {
		return err
	}
	if err := c.Table("No instances.", "PLAN", "ID", "STEP", "RESULT", "TEXT"); err != nil {
		return err
	}
	switch {
	case c.DryRun:
	case len(all) == 0:
		c.Came(act.IsNothing)
		c.Note("no instance is selected, so nothing was done.")
	case in.wait == 0:
		c.Came(act.IsAsked)
	}
	failed, end := 0, time.Now().Add(in.wait) // for all of them
	for i := range all {
		x := &all[i]
		if in.wait > 0 && x.looker != nil {
			if err := x.await(ctx, x.looker, x.asked, max(time.Until(end), time.Millisecond)); err != nil {
				return err
			}
		}
		if x.Result == instanceRefuses || x.Result == instanceSilent {
			failed++
		}
		if err := c.Row(x.InstanceAct, x.Plan, x.ID, x.Step, x.Result, act.Short(x.Text)); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d are not done", failed, len(all))
	}
	return nil
}

// askAll asks the instances that are selected, or only names them.
func askAll(ctx context.Context, c *act.Call, in *instanceInput, status process.Status, do askMany) (all []askedInstance, err error) {
	lookers, err := instances.Lookers(c.Desk, in.plan)
	if err != nil {
		return nil, err
	}
	q := in.Query(status)
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
			line := InstanceAct{Plan: l.Plan(), ID: id, Result: selected}
			if c.DryRun {
				all = append(all, askedInstance{InstanceAct: line})
				continue
			}
			some, err := do(l, l.Operator(c.By, c.Why).Under(c.ID), id)
			for _, asked := range some {
				all = append(all, askedInstance{newInstanceAct(l, asked), asked, l})
			}
			if err != nil {
				line.Result, line.Text = instanceRefuses, err.Error()
				all = append(all, askedInstance{InstanceAct: line})
			}
		}
	}
	return all, nil
}
