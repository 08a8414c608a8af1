package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/chart"
)

// A work is a table of the report.
type work struct {
	name, title string
	kind        string // works of a kind are in the order of their sizes
	metrics     []metric
	try         tryFunc // makes a measurement in a child process
	measure     measure // or with several child processes
}

// A metric is a number of a sample.
type metric struct {
	name, unit string
	high       bool // more is better
}

// A measure makes one measurement of a system in a place, and returns the values of the work's metrics, in their
// order.
type measure func(ctx context.Context, r *round, s spec) ([]float64, error)

// A System is a row of a table.
type System struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Settings string   `json:"settings"`
	Server   string   `json:"-"` // "postgres" if the place is a database, else it is a file
	Modules  []string `json:"-"`

	open   opener
	reopen opener // after a kill; open if nil
}

// systems returns all systems. The tables compare the first one with the others.
func systems() []System {
	return []System{
		{
			Name: "millrace", Title: "Millrace, SQLite", open: openMillrace,
			Settings: "each commit synced; all defaults; a fan-out is an Each, at most 256 at once; each instance announces its end by an event, which is another message",
			Modules:  []string{"github.com/millrace-go/millrace", "modernc.org/sqlite"},
		},
		{
			Name: "dbos", Title: "DBOS, PostgreSQL", Server: "postgres", open: openDBOS,
			Settings: "fsync=on, synchronous_commit=on; all defaults; a fan-out is a dbos.Go for each child; " +
				"after a kill the same executor starts again, as its documentation says for one machine",
			Modules: []string{"github.com/dbos-inc/dbos-transact-golang", "github.com/jackc/pgx/v5"},
		},
		{
			Name: "go-workflows", Title: "go-workflows, SQLite", open: openGoWorkflows, reopen: reopenGoWorkflows,
			Settings: fmt.Sprintf("WAL, synchronous=FULL (by default it is not set, so it is SQLite's default, FULL too); "+
				"package monoprocess, but not after a kill, where it would look every 30 s; MaxHistorySize %s (10,000), "+
				"WorkflowExecutorCacheSize %s (128), else all defaults: a dead process's activity is locked for 2 minutes",
				chart.Whole(maxHistory), chart.Whole(cachedExecutors)),
			Modules: []string{"github.com/cschleiden/go-workflows", "modernc.org/sqlite"},
		},
	}
}

func works() []work {
	var all []work
	for _, parallel := range []int{16, 64, 1000} {
		all = append(all, work{
			name: fmt.Sprintf("steps%d", parallel), kind: "steps", try: sequences(parallel),
			title:   fmt.Sprintf("Instances of %d steps in sequence, at most %s at a time", shortSteps, chart.Whole(parallel)),
			metrics: []metric{{"steps", "/s", true}, {"a step, p50", "ms", false}, {"a step, p99", "ms", false}},
		})
	}
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		all = append(all, work{
			name: fmt.Sprintf("fanout%d", n), kind: "fanout", try: fanOuts(n),
			title:   fmt.Sprintf("A fan-out of %s", chart.Whole(n)),
			metrics: []metric{{"until its end", "s", false}, {"children", "/s", true}},
		})
	}
	return append(all,
		work{
			name: "idle", kind: "idle", try: idle,
			title:   "A step of the only instance",
			metrics: []metric{{"p50", "ms", false}, {"p99", "ms", false}},
		},
		work{
			name: "recover", kind: "recover", measure: recovery,
			title:   fmt.Sprintf("A process is killed during steps of %v and started again", stepTime),
			metrics: []metric{{"from the kill to the next step", "s", false}},
		},
		work{
			name: "stored", kind: "stored", try: stored,
			title:   fmt.Sprintf("What an ended instance of %s steps leaves in the store", chart.Whole(longSteps)),
			metrics: []metric{{"compacted", "kB", false}},
		},
	)
}

const (
	shortSteps = 3
	longSteps  = 1000
	stepTime   = 50 * time.Millisecond
)

// choose picks works and systems by their names; without names, all.
func (p *plan) choose(names, only []string) error {
	p.works, p.systems = works(), systems()
	for _, name := range names {
		if !slices.ContainsFunc(p.works, func(w work) bool { return w.name == name }) {
			return fmt.Errorf("no work %q: -list tells which there are", name)
		}
	}
	for _, name := range only {
		if !slices.ContainsFunc(p.systems, func(s System) bool { return s.Name == name }) {
			return fmt.Errorf("no system %q: -list tells which there are", name)
		}
	}
	if len(names) > 0 {
		p.works = slices.DeleteFunc(p.works, func(w work) bool { return !slices.Contains(names, w.name) })
	}
	if len(only) > 0 {
		p.systems = slices.DeleteFunc(p.systems, func(s System) bool { return !slices.Contains(only, s.Name) })
	}
	return nil
}

// list tells the works and the systems.
func (p *plan) list(out io.Writer) {
	for _, w := range p.works {
		_, _ = fmt.Fprintf(out, "%-12s %s\n", w.name, w.title)
	}
	for _, s := range p.systems {
		needs := ""
		if s.Server != "" {
			needs = " (needs " + s.Server + ")"
		}
		_, _ = fmt.Fprintf(out, "%-12s %s%s: %s\n", s.Name, s.Title, needs, s.Settings)
	}
}
