package acts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/instances"
	"github.com/millrace-go/millrace/process"
)

// An Instance is an instance of a plan, as the index has it.
type Instance struct {
	Plan string `json:"plan"`
	process.Entry
}

// A PlanVersion is a version of a plan.
type PlanVersion struct {
	Plan string `json:"plan"`
	process.Known
}

// An instanceSelection selects instances.
type instanceSelection struct{ instances.Selection }

// mostSince bounds the days that a list goes through.
const mostSince = 400 * 24 * time.Hour

// instanceNames are the IDs of the instances that have not ended, for completion.
func instanceNames(ctx context.Context, d *act.Desk) (names []string) {
	all, _ := instances.Lookers(d, "") // nobody could read an error
	for _, l := range all {
		names = append(names, act.NamesOf(l.Open(ctx), func(x process.Entry) string { return x.ID })...)
	}
	return names
}

func planNames(_ context.Context, d *act.Desk) []string { return d.Known.Plans() }

func (s *instanceSelection) fields() []act.Field {
	return []act.Field{
		act.Text(&s.Status, "status", "only instances of this `STATUS`").OneOf(string(process.Init), string(process.InProcess), string(process.Undoing),
			string(process.Stuck), string(process.Completed), string(process.Aborted), string(process.Canceled)),
		act.Flag(&s.Stuck, "stuck", "only stuck instances, with the step and why it is stuck"),
		act.Text(&s.Waits, "waits", "only instances that wait for the step of this `NAME`"),
		act.Duration(&s.Since, "since", "also instances that have ended in this `TIME`, such as 48h", 0, mostSince),
		act.Texts(&s.Tags, "tag", "only instances with this tag, `K=V`; may be given several times, and then all must fit").With(func(text string) error {
			if k, _, ok := strings.Cut(text, "="); !ok || k == "" {
				return errors.New("want K=V")
			}
			return nil
		}),
		act.Text(&s.Prefix, "prefix", "only instances whose IDs begin with this `TEXT`"),
	}
}

// Check implements the check of an input.
func (s *instanceSelection) Check() error {
	if s.Stuck && s.Status != "" && s.Status != string(process.Stuck) {
		return act.Usage("want --stuck or --status %s, not both", s.Status)
	}
	return nil
}

// An instancesInput is what a list of instances takes.
type instancesInput struct {
	instanceSelection
	plan  string
	limit int
}

func (in *instancesInput) fields() []act.Field {
	in.limit = 100
	return append(in.instanceSelection.fields(), planField(&in.plan), act.Limit(&in.limit, "instances"))
}

func planField(to *string) act.Field {
	return act.Text(to, "plan", "the `PLAN`; the default is the only one that has the instance, or all").From(planNames)
}

func listInstances(ctx context.Context, c *act.Call, in *instancesInput) error {
	lookers, err := instances.Lookers(c.Desk, in.plan)
	if err != nil {
		return err
	}
	q := in.Query("")
	all, err := searchInstances(ctx, c, lookers, q, in.limit)
	if err != nil {
		return err
	}
	none, from, stuck := "No instances.", 0, q.Status == process.Stuck
	head := []string{"PLAN", "ID", "STATUS", "LASTED", "STANDS", "TAGS"}
	switch {
	case stuck:
		head = []string{"PLAN", "ID", "STEP", "SINCE ABOUT", "WHY"}
	case len(lookers) == 1:
		from = 1
	}
	if q.Status == "" && q.Since.IsZero() {
		none = "No instances that have not ended. --since 24h also lists those that have."
	}
	if err := c.Table(none, head[from:]...); err != nil {
		return err
	}
	for _, x := range all {
		x.Error = c.Fault(x.Error)
		id := act.Link{Text: x.ID, Act: "processes show", With: map[string]string{"id": x.ID, "plan": x.Plan}}
		cells := []any{x.Plan, id, processes.At(x.Entry), x.Since, act.Short(x.Error)}
		if !stuck {
			cells = instanceCells(x, id, q.Now)[from:]
		}
		if err := c.Row(x, cells...); err != nil {
			return err
		}
	}
	if !stuck || len(all) == 0 {
		return nil
	}
	id, _, _ := strings.Cut(all[0].ID, "/")
	return c.Say(nil, "\n%s processes show %s shows all of the first one. retry, skip, rerun and cancel go on with it.", c.Command, act.ShellWord(id))
}

// searchInstances returns the instances that a query asks for, at most so many.
func searchInstances(ctx context.Context, c *act.Call, lookers []*process.Looker, q process.Query, most int) (all []Instance, err error) {
	for _, l := range lookers {
		for x, err := range l.Find(ctx, q) {
			switch {
			case err != nil:
				return nil, err
			case len(all) == most:
				c.Next("limit", fmt.Sprint(2*most))
				return all, nil
			}
			all = append(all, Instance{l.Plan(), x})
		}
	}
	return all, nil
}

// veil takes out of an instance what the request may not see: its state, and the texts of errors.
func veil(c *act.Call, s *process.Stream) {
	failures := func(all []process.Failure) {
		for i := range all {
			all[i].Msg = c.Fault(all[i].Msg)
		}
	}
	s.Msg = c.Fault(s.Msg)
	if s.State != nil {
		s.State = c.Content(s.State, c.Known.States(s.Plan))
	}
	for i := range s.Lines {
		x := &s.Lines[i]
		x.Msg = c.Fault(x.Msg)
		failures(x.Failures)
		for j := range x.Undos {
			x.Undos[j].Msg = c.Fault(x.Undos[j].Msg)
			failures(x.Undos[j].Failures)
		}
	}
}

// instanceCells are the row of an instance, whatever its status.
func instanceCells(x Instance, id act.Link, now time.Time) []any {
	is, lasted := strings.Join(x.Waits, ", "), now.Sub(x.Created)
	if is != "" {
		is = "waits for " + is
	}
	if !x.Ended.IsZero() {
		is, lasted = "ended "+act.Ago(x.Ended), x.Ended.Sub(x.Created)
	}
	if x.Status == process.Stuck {
		is = "at " + processes.At(x.Entry)
	}
	if x.Error != "" {
		is = strings.TrimPrefix(is+": "+x.Error, ": ")
	}
	return []any{x.Plan, id, string(x.Status), processes.Took(lasted), act.Short(is), act.Short(processes.Tags(x.Tags))}
}

// listPlanVersions lists the versions of plans.
func listPlanVersions(ctx context.Context, c *act.Call, in *instancesInput) error {
	lookers, err := instances.Lookers(c.Desk, in.plan)
	if err != nil {
		return err
	}
	if err := c.Table("No versions.", "PLAN", "VERSION", "SINCE", "OPEN", "STUCK"); err != nil {
		return err
	}
	for _, l := range lookers {
		all, err := l.Versions(ctx)
		if err != nil {
			return err
		}
		for _, v := range all {
			if err := c.Row(PlanVersion{l.Plan(), v}, l.Plan(), v.Version, act.Clock(v.Since), v.Open, v.Stuck); err != nil {
				return err
			}
		}
	}
	return nil
}

// showInstance shows an instance with all its steps.
func showInstance(ctx context.Context, c *act.Call, in *instanceInput) error {
	l, err := instances.Find(ctx, c.Desk, in.plan, in.id)
	if err != nil {
		return err
	}
	s, err := l.Stream(ctx, in.id)
	if err != nil {
		return err
	}
	veil(c, s)
	now := time.Now()
	if in.trace {
		var b bytes.Buffer
		if err := s.WriteTrace(&b, now); err != nil {
			return err
		}
		trace := bytes.TrimSpace(b.Bytes())
		return c.Thing(json.RawMessage(trace), nil, string(trace))
	}
	return c.Draw(s, func(width int, clean func(string) string) string {
		return strings.Join(processes.Draw(s, now, c.Command, width, clean), "\n")
	})
}
