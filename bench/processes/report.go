package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/bench/stats"
	"github.com/millrace-go/millrace/internal/chart"
)

// A Report has all measurements of a run.
type Report struct {
	Machine   string            `json:"machine"`
	Loads     []string          `json:"loads"` // averages of a minute, before and after
	For       time.Duration     `json:"for"`
	Instances int               `json:"instances"`
	Limit     time.Duration     `json:"limit"`
	Reps      int               `json:"reps"`
	Seed      uint64            `json:"seed"`
	Systems   []System          `json:"systems"`
	Versions  map[string]string `json:"versions"`          // by system
	Skipped   map[string]string `json:"skipped,omitempty"` // why, by system
	Samples   []Sample          `json:"samples"`

	works []work
}

// A Sample is one measurement.
type Sample struct {
	Work   string    `json:"work"`
	System string    `json:"system"`
	Rep    int       `json:"rep"`
	Values []float64 `json:"values,omitempty"` // one for each metric of the work
	Stolen float64   `json:"stolen"`           // the part of processor time that the host took meanwhile
	Late   string    `json:"late,omitempty"`   // that it didn't end in time
	Err    string    `json:"err,omitempty"`
}

func (r *Report) save(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// sum summarizes a metric of a system.
func (r *Report) sum(w work, system string, metric int) stats.Summary {
	var values []float64
	for _, s := range r.Samples {
		if s.Work == w.name && s.System == system && s.Values != nil {
			values = append(values, s.Values[metric])
		}
	}
	return stats.Summarize(values)
}

// markdown writes a table for each work, and a description of the systems.
func (r *Report) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d repetitions, [lowest, highest]; at least %d instances in a sequence of steps; "+
		"short works again and again for %v; at most %v for a measurement; %s.\n",
		r.Reps, r.Instances, r.For, r.Limit, r.Machine)
	var stolen []float64
	for _, s := range r.Samples {
		stolen = append(stolen, 100*s.Stolen)
	}
	lost := stats.Summarize(stolen)
	fmt.Fprintf(&b, "The load average was %s before and after. The host gave others at most %s %% of this machine's "+
		"processor time during a measurement, in the middle one %s %%.\n",
		strings.Join(r.Loads, " and "), chart.Number(lost.Max), chart.Number(lost.Median))
	b.WriteString("“×” is how many times as good the first row is (more, or less time, or fewer bytes). Steps do " +
		"nothing. All systems keep over a power failure what they have answered. Servers run on the same machine, behind " +
		"Unix sockets.\n")
	for _, work := range r.works {
		r.table(&b, work)
	}
	b.WriteString("\n### What was measured\n\n| system | versions | settings |\n|---|---|---|\n")
	for _, s := range r.Systems {
		if slices.ContainsFunc(r.Samples, func(x Sample) bool { return x.System == s.Name }) {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", s.Title, cmp.Or(r.Versions[s.Name], chart.Nothing), s.Settings)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(&b, "\nSKIPPED %s: %s\n", name, r.Skipped[name])
	}
	for _, s := range r.Samples {
		if s.Err != "" {
			fmt.Fprintf(&b, "\nFAILED %s, %s, repetition %d: %s\n", s.System, s.Work, s.Rep, s.Err)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes a work's table. Its first row is the first system that has done the work; the others' numbers are
// compared with its numbers. The systems that didn't end in time are last.
func (r *Report) table(b *strings.Builder, w work) {
	done := func(s System) bool { return r.late(w, s.Name) == "" && !math.IsNaN(r.sum(w, s.Name, 0).Median) }
	var rows, late []System
	for _, s := range r.Systems {
		switch {
		case done(s):
			rows = append(rows, s)
		case r.late(w, s.Name) != "":
			late = append(late, s)
		}
	}
	if len(rows)+len(late) == 0 {
		return
	}
	compared := len(rows) > 1
	columns := []string{"system"}
	for _, m := range w.metrics {
		columns = append(columns, m.name+", "+m.unit)
		if compared {
			columns = append(columns, "×")
		}
	}
	line := strings.Repeat("|---", len(columns))
	fmt.Fprintf(b, "\n### %s\n\n| %s |\n%s|\n", w.title, strings.Join(columns, " | "), line)
	for _, s := range rows {
		cells := []string{s.Title}
		for i, m := range w.metrics {
			v := r.sum(w, s.Name, i)
			median, least, most := chart.Number(v.Median), chart.Number(v.Min), chart.Number(v.Max)
			cells = append(cells, fmt.Sprintf("%s [%s, %s]", median, least, most))
			switch first := rows[0].Name; {
			case compared && s.Name == first:
				cells = append(cells, chart.Nothing)
			case compared:
				cells = append(cells, m.times(r.sum(w, first, i).Median, v.Median))
			}
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	for _, s := range late {
		cells := slices.Repeat([]string{chart.Nothing}, len(columns))
		cells[0], cells[1] = s.Title, r.late(w, s.Name)
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

// times says how many times as good a is as b.
func (m metric) times(a, b float64) string {
	if !m.high {
		a, b = b, a
	}
	text := chart.Number(a / b)
	if text == chart.Nothing {
		return chart.Nothing
	}
	return text + " ×"
}
