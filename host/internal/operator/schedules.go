package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
)

// scheduleLine is what -json prints of a schedule.
type scheduleLine struct {
	Name    string           `json:"name"`
	State   *schedule.State  `json:"state"` // null: it can't be read
	Spec    *string          `json:"spec"`
	Next    *time.Time       `json:"next"`
	Last    *lastRun         `json:"last"`
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

// lastRun is the newest run of a schedule, without the text of a failure.
type lastRun struct {
	Due    time.Time  `json:"due"`
	Result string     `json:"result"` // sent, done, failed or skipped
	Sent   *time.Time `json:"sent"`
	Ended  *time.Time `json:"ended"`
}

// shownSchedule is what schedules show -json prints.
type shownSchedule struct {
	scheduleLine
	Following []time.Time       `json:"following"` // due times after the next one
	Runs      []schedule.Run    `json:"runs"`
	Changes   []schedule.Change `json:"changes"`
}

// orderedLine is what -json prints of a schedule that was told something.
type orderedLine struct {
	Name   string `json:"name"`
	ID     string `json:"id"`     // of the message
	Result string `json:"result"` // paused, resumed, run, backfill, unchanged or asked
	What   string `json:"what"`   // the same in words, as among the changes
}

// asked is the result of an order that no worker has carried out yet.
const asked = "asked"

const (
	orderedWithin = 5 * time.Second // a worker carries out an order, if one runs
	lookForOrder  = 50 * time.Millisecond
	following     = 5 // due times that schedules show has after the next one
)

func scheduleVerbs() []*verb {
	names := first(func(c *call) []string { return c.known.names })
	order := func(name, about, more string, run func(context.Context, *call) error) *verb {
		return &verb{name: name, args: "NAME", least: 1, most: 1, about: about, more: more + orderMore, store: true, before: checkName, run: run,
			words: names, names: scheduleNames, flags: noteFlags}
	}
	fill := order("schedules backfill", "run a schedule for due times of the past", "It runs for each due time from FROM to TO, whether or not it ran before; at most 1000. Where runs must not overlap, they run one\n"+
		"after another. A time is such as 2026-12-24T18:00:00+01:00 or \"2026-12-24 18:00\" of this machine. ", schedulesBackfill)
	fill.args, fill.least, fill.most, fill.before = "NAME FROM TO", 3, 3, checkBackfill
	return []*verb{
		{name: "schedules list", about: "list the schedules", store: true, run: schedulesList, check: checkList, flags: listing("schedules", "names"),
			more: "STATE is working, paused, overdue (no worker has done what was due five minutes ago) or orphaned (no worker has had it for an\n" +
				"hour). NEXT is by the clocks of the schedule's zone. LAST is the run before."},
		{name: "schedules show", args: "NAME", least: 1, most: 1, about: "show a schedule: its runs, next and last, and who changed it", store: true, before: checkName, run: schedulesShow,
			words: names, names: scheduleNames, more: "It keeps the last 20 runs and changes."},
		order("schedules pause", "keep a schedule from running", "Due times until schedules resume are left out; schedules backfill makes up for them. ", schedulesPause),
		order("schedules resume", "let a schedule run again", "", schedulesResume),
		order("schedules run", "run a schedule now", "It also runs while it is paused. Where runs must not overlap, it waits until the present one has ended. ", schedulesRun),
		fill,
	}
}

const orderMore = "A worker carries it out. If none does within\nfive seconds, the result is \"asked\", and it is carried out when one runs."

func scheduleNames(ctx context.Context, c *call) []string {
	return namesOf(schedule.List(ctx, c.store), nameOfSchedule)
}

func nameOfSchedule(x schedule.Info) string { return x.Name }

func newScheduleLine(x schedule.Info) scheduleLine {
	spec := x.Spec.String()
	line := scheduleLine{
		Name: x.Name, State: &x.State, Spec: &spec, Next: maybe(x.Next), Missed: x.Missed, Overlap: x.Overlap, Program: x.Program, Queue: x.Queue,
		Paused: x.Paused, Orphan: x.Orphaned, Active: x.Active, Waiting: x.Waiting, Filling: x.Filling,
	}
	if len(x.Runs) > 0 {
		r := x.Runs[0]
		line.Last = &lastRun{Due: r.Due, Result: resultOf(r), Sent: maybe(r.Sent), Ended: maybe(r.Ended)}
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

// inZone is a moment for people, by the clocks of a schedule's zone.
func inZone(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return t.Format("2006-01-02 15:04:05 -0700")
}

// runOf tells people of a run. It doesn't tell why one has failed.
func runOf(r schedule.Run) string {
	switch resultOf(r) {
	case "skipped":
		return "left out: " + r.Skipped
	case "failed":
		return "failed"
	case "sent":
		return "sent " + ago(r.Sent)
	}
	return fmt.Sprintf("done %s, after %s", ago(r.Ended), age(r.Ended.Sub(r.Sent)))
}

// schedulesList prints the schedules.
func schedulesList(ctx context.Context, c *call) error {
	head := []string{"NAME", "STATE", "SPEC", "NEXT", "LAST", "PROGRAM"}
	return page(c, "No schedules.", head, schedule.List(ctx, c.store), nameOfSchedule, func(x schedule.Info, fault string) (any, []string) {
		if fault != "" {
			return scheduleLine{Name: x.Name, Error: fault}, corruptRow(x.Name, len(head))
		}
		last := unknown
		if len(x.Runs) > 0 {
			last = short(runOf(x.Runs[0]))
		}
		return newScheduleLine(x), []string{x.Name, string(x.State), x.Spec.String(), inZone(x.Next), last, x.Program}
	})
}

// readSchedule returns what is known of the schedule of the command line.
func readSchedule(ctx context.Context, c *call) (schedule.Info, error) {
	x, err := schedule.At(c.store, c.args[0]).Info(ctx)
	if errors.Is(err, schedule.ErrUnknown) {
		return x, unknownSchedule(c.args[0])
	}
	return x, err
}

func unknownSchedule(name string) error {
	return nothing("no schedule %s: no worker has ever registered it", storage.Quote(name))
}

// schedulesShow prints all that is known of a schedule.
func schedulesShow(ctx context.Context, c *call) error {
	x, err := readSchedule(ctx, c)
	if err != nil {
		return err
	}
	shown := shownSchedule{scheduleLine: newScheduleLine(x), Following: []time.Time{}, Runs: append([]schedule.Run{}, x.Runs...), Changes: append([]schedule.Change{}, x.Changes...)}
	for t := x.Next; len(shown.Following) < following && !t.IsZero(); {
		if t = x.Spec.Next(t); !t.IsZero() {
			shown.Following = append(shown.Following, t)
		}
	}
	if c.json {
		return c.out.line(shown)
	}
	c.out.table([]string{"NAME", "STATE", "SPEC", "MISSED", "OVERLAP", "PROGRAM"}, [][]string{{x.Name, string(x.State), x.Spec.String(), x.Missed, x.Overlap, x.Program}})
	next := []string{inZone(x.Next)}
	for _, t := range shown.Following {
		next = append(next, inZone(t))
	}
	c.out.printf("\nNext: %s\n", boot.Clean(strings.Join(next, ", ")))
	if x.Active != nil {
		c.out.printf("A run goes on: %s, due %s.\n", boot.Clean(runOf(*x.Active)), boot.Clean(clock(x.Active.Due)))
	}
	if x.Waiting > 0 || x.Filling > 0 {
		c.out.printf("Waiting: %s, %s.\n", count(x.Waiting, "run"), count(x.Filling, "backfill"))
	}
	c.out.printf("\n")
	c.out.table([]string{"DUE", "FROM", "CAUSE", "RUN", "COMMAND"}, runRows(x.Runs))
	c.out.printf("\n")
	var rows [][]string
	for _, ch := range x.Changes {
		rows = append(rows, []string{clock(ch.At), ch.What, orUnknown(ch.By), orUnknown(ch.Why)})
	}
	c.out.table([]string{"WHEN", "WHAT", "BY", "WHY"}, rows)
	return nil
}

func runRows(runs []schedule.Run) (rows [][]string) {
	for _, r := range runs {
		from := unknown
		if !r.From.Equal(r.Due) {
			from = clock(r.From)
		}
		text := runOf(r)
		if r.Failed != "" {
			text += ": " + r.Failed
		}
		rows = append(rows, []string{clock(r.Due), from, string(r.Cause), text, orUnknown(r.Command)})
	}
	return rows
}

// A give gives an order to a schedule.
type give func(s *schedule.Schedule, n schedule.Note) (id string, err error)

func schedulesPause(ctx context.Context, c *call) error {
	return coordCall{c}.order(ctx, func(s *schedule.Schedule, n schedule.Note) (string, error) { return s.Pause(ctx, n) })
}

func schedulesResume(ctx context.Context, c *call) error {
	return coordCall{c}.order(ctx, func(s *schedule.Schedule, n schedule.Note) (string, error) { return s.Resume(ctx, n) })
}

func schedulesRun(ctx context.Context, c *call) error {
	return coordCall{c}.order(ctx, func(s *schedule.Schedule, n schedule.Note) (string, error) { return s.Run(ctx, n) })
}

// checkBackfill refuses times that can't be read, before the store is opened.
func checkBackfill(ctx context.Context, c *call) error {
	from, to, err := fillRange(c)
	if err == nil && to.Before(from) {
		err = usage("schedules backfill: TO is before FROM")
	}
	return errors.Join(err, checkName(ctx, c))
}

func fillRange(c *call) (from, to time.Time, err error) {
	for i, t := range []*time.Time{&from, &to} {
		if err := moment(t)(c.args[1+i]); err != nil {
			return from, to, usage("schedules backfill: %s: %w", []string{"FROM", "TO"}[i], err)
		}
	}
	return from, to, nil
}

func schedulesBackfill(ctx context.Context, c *call) error {
	from, to, err := fillRange(c)
	if err != nil {
		return err
	}
	return coordCall{c}.order(ctx, func(s *schedule.Schedule, n schedule.Note) (string, error) { return s.Backfill(ctx, from, to, n) })
}

// order gives an order, and waits for a moment until a worker has carried it out.
func (c coordCall) order(ctx context.Context, g give) error {
	name := c.args[0]
	id, err := g(schedule.At(c.store, name), schedule.Note{By: c.author(), Why: c.why})
	switch {
	case errors.Is(err, schedule.ErrUnknown):
		return unknownSchedule(name)
	case err != nil:
		return err
	}
	what, err := c.carriedOut(ctx, id)
	if err != nil {
		return fmt.Errorf("the message is sent; %w", err)
	}
	if refused, ok := strings.CutPrefix(what, "refused: "); ok {
		return fmt.Errorf("schedule %s refuses: %s", storage.Quote(name), refused)
	}
	if c.json {
		result, _, _ := strings.Cut(what, " ")
		return c.out.line(orderedLine{Name: name, ID: id, Result: strings.TrimSuffix(result, ":"), What: what})
	}
	text := fmt.Sprintf("Schedule %s: %s.", storage.Quote(name), what)
	if what == asked {
		text = fmt.Sprintf("Schedule %s is asked for it. No worker has carried it out within %v; the next one that runs does.", storage.Quote(name), orderedWithin)
	}
	c.out.printf("%s\n", boot.Clean(text))
	return nil
}

// carriedOut waits until a worker has carried out an order, and returns what it did, or asked.
func (c coordCall) carriedOut(ctx context.Context, id string) (what string, err error) {
	tick := time.NewTicker(lookForOrder)
	defer tick.Stop()
	for end := time.Now().Add(orderedWithin); ; {
		x, err := readSchedule(ctx, c.call)
		if err != nil {
			return "", err
		}
		for _, ch := range x.Changes {
			if ch.ID == id {
				return ch.What, nil
			}
		}
		if time.Now().After(end) {
			return asked, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// scheduleFindings are about schedules that can't be read, that nobody runs, and whose last run has failed.
func (c examination) scheduleFindings(ctx context.Context) (all []finding, err error) {
	found := func(text, fix string) {
		all = append(all, finding{Severity: wrong, Check: "schedules", Text: text, Fix: fix})
	}
	seen := 0
	for x, err := range schedule.List(ctx, c.store) {
		name := boot.ShellWord(x.Name)
		switch {
		case err != nil && x.Name == "":
			return nil, err
		case err != nil:
			found(fmt.Sprintf("schedule %s can't be read, so it doesn't run", name), fmt.Sprintf("Delete blob %s in container schedules. The next worker that starts registers the schedule again.", name))
		case x.State == schedule.Orphaned && x.Paused == nil:
			found(fmt.Sprintf("schedule %s has stopped: no worker has had it since %s", name, clock(x.Orphaned.At)), fmt.Sprintf("Start a worker of a version of %s that has it. If it is gone for good, pause it.", x.Program))
		case x.State == schedule.Overdue:
			found(fmt.Sprintf("schedule %s is overdue: it was due at %s", name, inZone(x.Next)), fmt.Sprintf("Does a worker of %s run? If its queue %s holds nothing that is due, start one again: a start sends the message that is missing.", x.Program, x.Queue))
		}
		if len(x.Runs) > 0 && x.Runs[0].Failed != "" {
			found(fmt.Sprintf("the last run of schedule %s, due at %s, has failed", name, clock(x.Runs[0].Due)), fmt.Sprintf("%s schedules show %s tells why.", c.Command, name))
		}
		if seen++; seen == mostSeen {
			break
		}
	}
	return all, nil
}
