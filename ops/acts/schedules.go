package acts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
)

// A Schedule is a schedule as it is.
type Schedule struct {
	Name    string           `json:"name"`
	State   *schedule.State  `json:"state"` // null: it can't be read
	Spec    *string          `json:"spec"`
	Next    *time.Time       `json:"next"`
	Last    *LastRun         `json:"last"`
	Missed  string           `json:"missed,omitempty"`
	Overlap string           `json:"overlap,omitempty"`
	Program string           `json:"program,omitempty"`
	Queue   string           `json:"queue,omitempty"`
	Paused  *schedule.Change `json:"paused"`
	Orphan  *schedule.Change `json:"orphaned"`
	Active  *schedule.Run    `json:"active"`
	Waiting int              `json:"waiting"`
	Filling int              `json:"backfills"`
	Error   string           `json:"error,omitempty"`
}

// A LastRun is the newest run of a schedule, without the text of a failure.
type LastRun struct {
	Due    time.Time  `json:"due"`
	Result string     `json:"result"` // sent, done, failed or skipped
	Sent   *time.Time `json:"sent"`
	Ended  *time.Time `json:"ended"`
}

// A ScheduleShown is all that is known of a schedule.
type ScheduleShown struct {
	Schedule
	Following []time.Time       `json:"following"` // due times after the next one
	Runs      []schedule.Run    `json:"runs"`
	Changes   []schedule.Change `json:"changes"`
}

// A ScheduleOrdered is a schedule that was told something.
type ScheduleOrdered struct {
	Name   string `json:"name"`
	ID     string `json:"id"`     // of the message
	Result string `json:"result"` // paused, resumed, run, backfill, unchanged or asked
	What   string `json:"what"`   // the same in words, as among the changes
}

// orderAsked is the result of an order that no worker has carried out yet.
const orderAsked = "asked"

const (
	orderedWithin = 5 * time.Second // a worker carries out an order, if one runs
	lookForOrder  = 50 * time.Millisecond
	following     = 5 // due times that schedules show has after the next one
)

// A scheduleInput is what acts on a schedule take.
type scheduleInput struct {
	name     string
	from, to time.Time
}

func (in *scheduleInput) fields() []act.Field {
	return []act.Field{nameField(&in.name, "the schedule", scheduleNames)}
}

// Check implements the check of an input.
func (in *scheduleInput) Check() error {
	if in.to.Before(in.from) {
		return act.Usage("TO is before FROM")
	}
	return nil
}

func scheduleActs() []*act.Act {
	order := func(verb, about, more string, give func(*schedule.Schedule, context.Context, schedule.Note) (string, error)) *act.Act {
		return act.New(act.Act{Noun: "schedules", Verb: verb, Role: act.Operator, Why: act.May, About: about, More: more + orderMore}, (*scheduleInput).fields,
			func(ctx context.Context, c *act.Call, in *scheduleInput) error {
				return orderSchedule(ctx, c, in.name, func(s *schedule.Schedule, n schedule.Note) (string, error) { return give(s, ctx, n) })
			})
	}
	return []*act.Act{
		act.New(act.Act{Noun: "schedules", Verb: "list", Role: act.Viewer, About: "list the schedules",
			More: "STATE is working, paused, overdue (no worker has done what was due five minutes ago) or orphaned (no worker has had it for an " +
				"hour). NEXT is by the clocks of the schedule's zone. LAST is the run before.",
		}, func(in *act.Page) []act.Field { return act.List(in, "schedules", "names") }, listSchedules),
		act.New(act.Act{Noun: "schedules", Verb: "show", Role: act.Viewer, Reveals: true, About: "show a schedule: its runs, next and last, and who changed it",
			More: "It keeps the last 20 runs and changes.",
		}, (*scheduleInput).fields, showSchedule),
		order("pause", "keep a schedule from running", "Due times until schedules resume are left out; schedules backfill makes up for them. ", (*schedule.Schedule).Pause),
		order("resume", "let a schedule run again", "", (*schedule.Schedule).Resume),
		order("run", "run a schedule now", "It also runs while it is paused. Where runs must not overlap, it waits until the present one has ended. ", (*schedule.Schedule).Run),
		act.New(act.Act{Noun: "schedules", Verb: "backfill", Role: act.Operator, Why: act.May, About: "run a schedule for due times of the past",
			More: "It runs for each due time from FROM to TO, whether or not it ran before; at most 1000. Where runs must not overlap, they run one " +
				"after another. A time is such as 2026-12-24T18:00:00+01:00 or \"2026-12-24 18:00\" of this machine. " + orderMore,
		}, func(in *scheduleInput) []act.Field {
			return append(in.fields(), act.Moment(&in.from, "from", "the first due time, or one before it").At("FROM"), act.Moment(&in.to, "to", "the last due time, or one after it").At("TO"))
		}, func(ctx context.Context, c *act.Call, in *scheduleInput) error {
			return orderSchedule(ctx, c, in.name, func(s *schedule.Schedule, n schedule.Note) (string, error) { return s.Backfill(ctx, in.from, in.to, n) })
		}),
	}
}

const orderMore = "A worker carries it out. If none does within five seconds, the result is \"asked\", and it is carried out when one runs."

func scheduleNames(ctx context.Context, d *act.Desk) []string {
	return act.NamesOf(schedule.List(ctx, d.Store), nameOfSchedule)
}

func nameOfSchedule(x schedule.Info) string { return x.Name }

func newSchedule(x schedule.Info) Schedule {
	spec := x.Spec.String()
	line := Schedule{
		Name: x.Name, State: &x.State, Spec: &spec, Next: act.Maybe(x.Next), Missed: x.Missed, Overlap: x.Overlap, Program: x.Program, Queue: x.Queue,
		Paused: x.Paused, Orphan: x.Orphaned, Active: x.Active, Waiting: x.Waiting, Filling: x.Filling,
	}
	if len(x.Runs) > 0 {
		r := x.Runs[0]
		line.Last = &LastRun{Due: r.Due, Result: resultOf(r), Sent: act.Maybe(r.Sent), Ended: act.Maybe(r.Ended)}
	}
	return line
}

// resultOf is what has become of a run.
func resultOf(r schedule.Run) string {
	switch {
	case r.Skipped != "":
		return "skipped"
	case r.Failed != "":
		return "failed"
	case r.Ended.IsZero():
		return "sent"
	}
	return "done"
}

// runOf tells people of a run. It doesn't tell why one has failed.
func runOf(r schedule.Run) string {
	switch resultOf(r) {
	case "skipped":
		return "left out: " + r.Skipped
	case "failed":
		return "failed"
	case "sent":
		return "sent " + act.Ago(r.Sent)
	}
	return fmt.Sprintf("done %s, after %s", act.Ago(r.Ended), act.Age(r.Ended.Sub(r.Sent)))
}

func listSchedules(ctx context.Context, c *act.Call, page *act.Page) error {
	return act.Listing[schedule.Info]{
		None: "No schedules.", Head: []string{"NAME", "STATE", "SPEC", "NEXT", "LAST", "PROGRAM"}, Name: nameOfSchedule,
		Row: func(x schedule.Info) (any, []any) {
			last := ""
			if len(x.Runs) > 0 {
				last = act.Short(runOf(x.Runs[0]))
			}
			return newSchedule(x), []any{x.Name, string(x.State), x.Spec.String(), act.ClockIn(x.Next), last, x.Program}
		},
		Corrupt: func(x schedule.Info, fault string) any { return Schedule{Name: x.Name, Error: fault} },
	}.Tell(c, *page, schedule.List(ctx, c.Store))
}

// readSchedule returns what is known of a schedule.
func readSchedule(ctx context.Context, d *act.Desk, name string) (schedule.Info, error) {
	x, err := schedule.At(d.Store, name).Info(ctx)
	if errors.Is(err, schedule.ErrUnknown) {
		return x, unknownSchedule(name)
	}
	return x, err
}

func unknownSchedule(name string) error {
	return act.Nothing("no schedule %s: no worker has ever registered it", storage.Quote(name))
}

// showSchedule tells all that is known of a schedule.
func showSchedule(ctx context.Context, c *act.Call, in *scheduleInput) error {
	x, err := readSchedule(ctx, c.Desk, in.name)
	if err != nil {
		return err
	}
	shown := ScheduleShown{Schedule: newSchedule(x), Following: []time.Time{}, Runs: append([]schedule.Run{}, x.Runs...), Changes: append([]schedule.Change{}, x.Changes...)}
	for i := range shown.Runs {
		shown.Runs[i].Failed = c.Fault(shown.Runs[i].Failed)
	}
	for t := x.Next; len(shown.Following) < following && !t.IsZero(); {
		if t = x.Spec.Next(t); !t.IsZero() {
			shown.Following = append(shown.Following, t)
		}
	}
	text := "\nNext: " + cmp.Or(act.ClockIn(x.Next), act.Unknown)
	for _, t := range shown.Following {
		text += ", " + act.ClockIn(t)
	}
	if x.Active != nil {
		text += fmt.Sprintf("\nA run goes on: %s, due %s.", runOf(*x.Active), act.Clock(x.Active.Due))
	}
	if x.Waiting > 0 || x.Filling > 0 {
		text += fmt.Sprintf("\nWaiting: %s, %s.", act.Count(x.Waiting, "run"), act.Count(x.Filling, "backfill"))
	}
	return errors.Join(
		c.Table("", "NAME", "STATE", "SPEC", "MISSED", "OVERLAP", "PROGRAM"),
		c.Row(shown, x.Name, string(x.State), x.Spec.String(), x.Missed, x.Overlap, x.Program),
		c.Say(nil, "%s", text), tellRuns(c, shown.Runs), tellChanges(c, x.Changes))
}

func tellRuns(c *act.Call, runs []schedule.Run) error {
	err := c.Table("No runs.", "DUE", "FROM", "CAUSE", "RUN", "COMMAND")
	for _, r := range runs {
		from, text := "", runOf(r)
		if !r.From.Equal(r.Due) {
			from = act.Clock(r.From)
		}
		if r.Failed != "" {
			text += ": " + r.Failed
		}
		err = cmp.Or(err, c.Row(nil, act.Clock(r.Due), from, string(r.Cause), text, r.Command))
	}
	return err
}

func tellChanges(c *act.Call, changes []schedule.Change) error {
	err := c.Table("No changes.", "WHEN", "WHAT", "BY", "WHY")
	for _, x := range changes {
		err = cmp.Or(err, c.Row(nil, act.Clock(x.At), x.What, x.By, x.Why))
	}
	return err
}

// orderSchedule gives an order, and waits for a moment until a worker has carried it out.
func orderSchedule(ctx context.Context, c *act.Call, name string, give func(*schedule.Schedule, schedule.Note) (id string, err error)) error {
	id, err := give(schedule.At(c.Store, name), schedule.Note{By: c.By, Why: c.Why, ID: c.ID})
	switch {
	case errors.Is(err, schedule.ErrUnknown):
		return unknownSchedule(name)
	case err != nil:
		return err
	}
	what, err := carriedOut(ctx, c.Desk, name, id)
	if err != nil {
		return fmt.Errorf("the message is sent; %w", err)
	}
	if refused, ok := strings.CutPrefix(what, "refused: "); ok {
		return fmt.Errorf("schedule %s refuses: %s", storage.Quote(name), refused)
	}
	result, _, _ := strings.Cut(what, " ")
	line := ScheduleOrdered{Name: name, ID: id, Result: strings.TrimSuffix(result, ":"), What: what}
	if what == orderAsked {
		return c.Say(line, "Schedule %s is asked for it. No worker has carried it out within %v; the next one that runs does.", storage.Quote(name), orderedWithin)
	}
	return c.Say(line, "Schedule %s: %s.", storage.Quote(name), what)
}

// carriedOut waits until a worker has carried out an order, and returns what it did, or orderAsked.
func carriedOut(ctx context.Context, d *act.Desk, name, id string) (what string, err error) {
	tick := time.NewTicker(lookForOrder)
	defer tick.Stop()
	for end := time.Now().Add(orderedWithin); ; {
		x, err := readSchedule(ctx, d, name)
		if err != nil {
			return "", err
		}
		for _, ch := range x.Changes {
			if ch.ID == id {
				return ch.What, nil
			}
		}
		if time.Now().After(end) {
			return orderAsked, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
