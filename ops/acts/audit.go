package acts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/storage"
)

// An auditInput is what the list of acts takes.
type auditInput struct {
	since time.Duration
	who   string
	limit int
	id    string
}

func auditActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "audit", Verb: "list", Role: act.Viewer, About: "list what operators have done, the newest first",
			More: "RESULT is what the act told first, or its error. – means that it is under way, that its process died, or that the store was away: nobody knows the result. A " +
				"name with a ? was given by --by, and nothing else shows it.",
		}, func(in *auditInput) []act.Field {
			in.since, in.limit = 24*time.Hour, 100
			return []act.Field{
				act.Duration(&in.since, "since", "go back so much `TIME`", time.Second, act.MaxAhead),
				act.Text(&in.who, "who", "only acts of this `NAME`"),
				act.Limit(&in.limit, "acts"),
			}
		}, listAudit),
		act.New(act.Act{Noun: "audit", Verb: "show", Role: act.Viewer, About: "show all of one thing that an operator has done",
			More: "ID is that of the form, or the Idempotency-Key of a program.",
		}, func(in *auditInput) []act.Field {
			return []act.Field{act.Text(&in.id, "id", "the act's ID").At("ID").With(audit.CheckID)}
		}, showAudit),
	}
}

// showAudit tells all of an act.
func showAudit(ctx context.Context, c *act.Call, in *auditInput) error {
	e, err := audit.Of(c.Store).Get(ctx, in.id)
	if errors.Is(err, storage.ErrNotFound) {
		return act.Nothing("nobody has begun an act %s", in.id)
	}
	if err != nil {
		return err
	}
	who, result := e.Who, e.Result
	if e.Said {
		who += " (given by --by; nothing else shows it)"
	}
	switch {
	case !e.Done():
		result = "unknown: it is under way, its process has died, or the store was away"
	case e.Failed:
		result = "failed: " + result
	}
	return c.Thing(e, []act.Part{{Name: "Who", Value: who}, {Name: "From", Value: e.From}, {Name: "Act", Value: e.Act}, {Name: "On", Value: e.On}, {Name: "Why", Value: e.Why},
		{Name: "Begun", Value: act.Clock(e.Time)}, {Name: "Ended", Value: act.Clock(e.Ended)}, {Name: "Result", Value: result}, {Name: "ID", Value: e.ID}}, "")
}

// listAudit tells what stands in the audit log. An entry of it is the object.
func listAudit(ctx context.Context, c *act.Call, in *auditInput) error {
	if err := c.Table("Nobody has changed anything.", "WHEN", "WHO", "FROM", "ACT", "WHY", "RESULT"); err != nil {
		return err
	}
	all, err := in.read(ctx, c)
	if err != nil {
		return err
	}
	for _, e := range all {
		who := e.Who
		if e.Said {
			who += "?"
		}
		if err := c.Row(e, act.Link{Text: act.Ago(e.Time), Act: "audit show", With: map[string]string{"id": e.ID}}, who, e.From, act.Short(strings.TrimSpace(e.Act+" "+e.On)), act.Short(e.Why), act.Short(e.Result)); err != nil {
			return err
		}
	}
	return nil
}

// read reads the acts that are asked for. The log has them in the order of their IDs, and a form may have its ID long
// before somebody does the act. So they are put in the order in which they were begun.
func (in *auditInput) read(ctx context.Context, c *act.Call) (all []audit.Entry, err error) {
	now := time.Now()
	for e, err := range audit.Of(c.Store).List(ctx, now.Add(-in.since), now.Add(time.Hour)) {
		if err != nil {
			return nil, err
		}
		if in.who != "" && e.Who != in.who {
			continue
		}
		if len(all) == in.limit {
			c.Next("limit", fmt.Sprint(2*in.limit))
			break
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b audit.Entry) int { return b.Time.Compare(a.Time) })
	return all, nil
}
