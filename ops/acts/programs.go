package acts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
)

// A ProgramVersion is a version of a program that has published what it knows.
type ProgramVersion struct {
	Program string     `json:"program"`
	Version string     `json:"version"`
	First   time.Time  `json:"first"`
	Last    time.Time  `json:"last"`    // to the day
	Running bool       `json:"running"` // it has published within two days
	Told    *time.Time `json:"told"`    // when a worker has told of its work last; null: not in the last minutes
	Workers int        `json:"workers"` // that have told of their work in the last minutes
	Ahead   float64    `json:"clock_ahead_seconds"`
	Fault   string     `json:"fault,omitempty"` // why its description can't be read
}

// A WorkerSeen is a worker that has told of its work in the last minutes.
type WorkerSeen struct {
	Program string    `json:"program"`
	Version string    `json:"version"`
	Worker  string    `json:"worker"`
	Up      float64   `json:"up_seconds"`
	InHand  int64     `json:"in_hand"`
	Out     int64     `json:"out"`         // messages that it is through with, in its last report
	P99     float64   `json:"p99_seconds"` // running time of its handlers; 0 where none ran
	Queues  []string  `json:"queues"`      // that it consumes
	Last    time.Time `json:"last"`        // when it told that
	Stopped bool      `json:"stopped"`
}

// A QueueOf is a queue of a program, with what the program does with its messages.
type QueueOf struct {
	Program  string         `json:"program"`
	Version  string         `json:"version"`
	Queue    string         `json:"queue"`
	Kinds    []channel.Kind `json:"kinds"`
	Handlers []string       `json:"handlers"`
}

// A programInput is what acts on a program take.
type programInput struct{ name string }

func programActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "programs", Verb: "list", Role: act.Viewer, About: "list the programs that use the store, with their versions",
			More: "They are those that have published what they know. DESCRIBED is when that was last, which a program does once a day or when it changes, and " +
				"WORKED when a worker has told of its work last, in the last minutes. WORKERS are those that have told of their work in the last minutes. CLOCK is how far " +
				"the clock of the machine that published last is ahead of the store's.",
		}, nil, listPrograms),
		act.New(act.Act{Noun: "programs", Verb: "show", Role: act.Viewer, About: "show a program: its versions, workers, queues and handlers",
			More: "IN HAND are the messages that a worker held when it told so. A handler that has been running for long isn't told of by itself: its " +
				"message stays in hand, and the worker's log names it.",
		}, func(in *programInput) []act.Field {
			return []act.Field{act.Text(&in.name, "program", "the program").At("PROGRAM").From(programNames)}
		}, showProgram),
	}
}

func programNames(_ context.Context, d *act.Desk) (all []string) {
	for i := range d.Known.Published {
		all = append(all, d.Known.Published[i].Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// workersOf are the workers of a program, or of all programs, by what they have told last.
func workersOf(reports []catalog.Report, program string) (all []WorkerSeen) {
	newest := map[string]catalog.Report{}
	for _, p := range reports { // in the order of time
		newest[p.ID] = p
	}
	for _, p := range newest {
		if program != "" && p.Program != program {
			continue
		}
		w := WorkerSeen{Program: p.Program, Version: p.Version, Worker: p.Worker, Up: p.Up, Last: p.Time, Stopped: p.Last, Queues: []string{}}
		for name, q := range p.Queues {
			w.Queues, w.InHand, w.Out, w.P99 = append(w.Queues, name), w.InHand+q.InHand, w.Out+q.Out(), max(w.P99, q.P99/1000)
		}
		slices.Sort(w.Queues)
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b WorkerSeen) int {
		return cmp.Or(strings.Compare(a.Program, b.Program), strings.Compare(a.Worker, b.Worker), a.Last.Compare(b.Last))
	})
	return all
}

// reportsOf are what workers have told lately. A note says why they are unknown.
func reportsOf(ctx context.Context, c *act.Call) []catalog.Report {
	all, err := catalog.ReadReports(ctx, c.Store)
	if err != nil {
		c.Note("What the workers publish can't be read: %v", err)
	}
	return all
}

func listPrograms(ctx context.Context, c *act.Call, _ *act.None) error {
	return tellVersions(c, "", workersOf(reportsOf(ctx, c), ""))
}

// tellVersions tells the versions of a program, or of all programs.
func tellVersions(c *act.Call, program string, workers []WorkerSeen) error {
	if err := c.Table(fmt.Sprintf("No program has published what it knows%s.", c.Unpublished()), "PROGRAM", "VERSION", "FIRST", "DESCRIBED", "WORKED", "WORKERS", "CLOCK"); err != nil {
		return err
	}
	published := slices.Concat(c.Known.Published, c.Known.Faulty)
	slices.SortStableFunc(published, func(a, b catalog.Description) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), b.First.Compare(a.First))
	})
	for _, d := range published {
		if program != "" && d.Name != program {
			continue
		}
		v := ProgramVersion{Program: d.Name, Version: d.Version, First: d.First, Last: d.Last, Fault: d.Fault, Running: d.Fault == "" && time.Since(d.Last) < known.StillThere}
		for _, w := range workers {
			if w.Program != d.Name || w.Version != d.Version {
				continue
			}
			if v.Told == nil || w.Last.After(*v.Told) {
				v.Told = &w.Last
			}
			if !w.Stopped {
				v.Workers++
			}
		}
		clock, told := any(nil), any(nil)
		if v.Told != nil {
			told = *v.Told
		}
		if !d.Stored.IsZero() && d.Fault == "" {
			ahead := d.Last.Sub(d.Stored)
			v.Ahead, clock = ahead.Seconds(), aheadText(ahead)
		}
		name := act.Link{Text: d.Name, Act: "programs show", With: map[string]string{"program": d.Name}}
		if err := c.Row(v, name, d.Version, d.First, lastOf(d), told, v.Workers, clock); err != nil {
			return err
		}
	}
	return nil
}

// lastOf is when a description was published last; a mark if it can't be read.
func lastOf(d catalog.Description) any {
	if d.Fault != "" {
		return act.Corrupt
	}
	return d.Last
}

// aheadText tells people how far a clock is ahead.
func aheadText(d time.Duration) string {
	switch {
	case d.Abs() < time.Minute:
		return "right"
	case d < 0:
		return act.Age(-d) + " behind"
	}
	return act.Age(d) + " ahead"
}

func showProgram(ctx context.Context, c *act.Call, in *programInput) error {
	if !slices.Contains(programNames(ctx, c.Desk), in.name) {
		return act.Nothing("no program %s has published what it knows%s", act.Word(in.name), c.Unpublished())
	}
	workers := workersOf(reportsOf(ctx, c), in.name)
	if err := tellVersions(c, in.name, workers); err != nil {
		return err
	}
	if err := c.Table("No worker has told of its work in the last minutes.", "WORKER", "VERSION", "UP", "IN HAND", "OUT", "P99", "TOLD"); err != nil {
		return err
	}
	for _, w := range workers {
		up := any(inSeconds(&w.Up))
		if w.Stopped {
			up = "stopped"
		}
		if err := c.Row(w, w.Worker, w.Version, up, w.InHand, w.Out, ranFor(&w.P99), w.Last); err != nil {
			return err
		}
	}
	return tellQueuesOf(c, in.name)
}

// tellQueuesOf tells the queues of the versions of a program that have published lately.
func tellQueuesOf(c *act.Call, program string) error {
	if err := c.Table("None of its versions has published lately.", "QUEUE", "VERSION", "KINDS", "HANDLERS"); err != nil {
		return err
	}
	for _, d := range c.Known.Running() {
		for _, q := range d.Queues {
			if d.Name != program {
				continue
			}
			line := QueueOf{Program: d.Name, Version: d.Version, Queue: q.Name, Kinds: q.Kinds, Handlers: []string{}}
			var kinds []string
			for _, k := range q.Kinds {
				kinds = append(kinds, string(k))
			}
			for _, h := range q.Handlers {
				line.Handlers = append(line.Handlers, h.Name)
			}
			slices.Sort(line.Handlers)
			line.Handlers = slices.Compact(line.Handlers)
			link := act.Link{Text: q.Name, Act: "queues show", With: map[string]string{"queue": q.Name}}
			if err := c.Row(line, link, d.Version, act.Short(strings.Join(kinds, ", ")), act.Short(cmp.Or(strings.Join(line.Handlers, ", "), "none: it only sends"))); err != nil {
				return err
			}
		}
	}
	return nil
}
