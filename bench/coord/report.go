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

	"github.com/millrace-go/millrace/bench/host"
	"github.com/millrace-go/millrace/bench/stats"
	"github.com/millrace-go/millrace/internal/chart"
)

// A Report has all measurements of a run.
type Report struct {
	Machine  string            `json:"machine"`
	Loads    []string          `json:"loads"` // averages of a minute, before and after
	For      time.Duration     `json:"for"`
	Reps     int               `json:"reps"`
	Seed     uint64            `json:"seed"`
	Systems  []System          `json:"systems"`
	Versions map[string]string `json:"versions"`          // by system
	Skipped  map[string]string `json:"skipped,omitempty"` // why, by system
	Samples  []Sample          `json:"samples"`
	Requests []Requests        `json:"requests,omitempty"`

	works []work
}

// A Sample is one measurement.
type Sample struct {
	Work   string    `json:"work"`
	System string    `json:"system"`
	Rep    int       `json:"rep"`
	Values []float64 `json:"values,omitempty"` // one for each metric of the work
	Stolen float64   `json:"stolen"`           // the part of processor time that the host took meanwhile
	Err    string    `json:"err,omitempty"`
}

// Requests are what an operation asks of the store.
type Requests struct {
	Of    string  `json:"of"`
	Count float64 `json:"count"`
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
		if s.Work == w.name && s.System == system && s.Err == "" {
			values = append(values, s.Values[metric])
		}
	}
	return stats.Summarize(values)
}

// markdown writes a table for each work, and a description of the systems.
func (r *Report) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d repetitions, [lowest, highest]; %v for each rate; %s.\n", r.Reps, r.For, r.Machine)
	var stolen []float64
	for _, s := range r.Samples {
		stolen = append(stolen, 100*s.Stolen)
	}
	lost := stats.Summarize(stolen)
	fmt.Fprintf(&b, "The load average was %s before and after. The host gave others at most %s %% of this machine's processor time during a measurement, in the middle one %s %%.\n", strings.Join(r.Loads, " and "), chart.Number(lost.Max), chart.Number(lost.Median))
	b.WriteString("“×” is how many times as good Millrace is (more, or less time), in its row of the same durability where there is one, and on Redis beside redsync. Strict: what was answered survives a power failure. Relaxed: a power failure may lose the last second. None: nothing outlives the server or the connection. Servers run on the same machine, behind Unix sockets.\n")
	for _, work := range r.works {
		r.table(&b, work)
	}
	if len(r.Requests) > 0 {
		b.WriteString("\n### Requests on Azurite, with a doorbell\n\n| operation | requests |\n|---|---|\n")
		for _, x := range r.Requests {
			fmt.Fprintf(&b, "| %s | %s |\n", x.Of, chart.Number(x.Count))
		}
	}
	b.WriteString("\n### What was measured\n\n| system | durability | versions | settings |\n|---|---|---|---|\n")
	for _, s := range r.Systems {
		if slices.ContainsFunc(r.Samples, func(x Sample) bool { return x.System == s.Name }) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.Title, s.Durability, cmp.Or(r.Versions[s.Name], chart.Nothing), s.Settings)
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

// table writes a work's table: Millrace's rows first, and the others by their first metric.
func (r *Report) table(b *strings.Builder, w work) {
	rows := slices.DeleteFunc(slices.Clone(r.Systems), func(s System) bool {
		return w.measures[s.Name] == nil || math.IsNaN(r.sum(w, s.Name, 0).Median)
	})
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(x, y System) int {
		if x.own() || y.own() {
			return cmp.Compare(boolOrder(!x.own()), boolOrder(!y.own()))
		}
		order := cmp.Compare(r.sum(w, x.Name, 0).Median, r.sum(w, y.Name, 0).Median)
		if w.metrics[0].high {
			return -order
		}
		return order
	})
	compared := rows[0].own() && slices.ContainsFunc(rows, func(s System) bool { return !s.own() })
	fmt.Fprintf(b, "\n### %s\n\n| system | durability |", w.title)
	for _, m := range w.metrics {
		fmt.Fprintf(b, " %s |", m.title())
		if compared && m.compared() {
			b.WriteString(" × |")
		}
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", strings.Count(b.String()[strings.LastIndex(b.String(), "| system"):], "|")-3) + "\n")
	for _, s := range rows {
		fmt.Fprintf(b, "| %s | %s |", s.Title, s.Durability)
		for i, m := range w.metrics {
			v := r.sum(w, s.Name, i)
			fmt.Fprintf(b, " %s [%s, %s] |", chart.Number(v.Median), chart.Number(v.Min), chart.Number(v.Max))
			if compared && m.compared() {
				b.WriteString(" " + m.times(r.sum(w, r.beside(w, s), i).Median, v.Median, s) + " |")
			}
		}
		b.WriteString("\n")
	}
}

// beside is Millrace's system of the same durability if there is one in the table, else the one with its defaults. A
// lock on Redis is beside Millrace's on Redis.
func (r *Report) beside(w work, s System) string {
	if kind, ok := strings.CutPrefix(s.Name, "redsync"); ok && !math.IsNaN(r.sum(w, onRedis+kind, 0).Median) {
		return onRedis + kind
	}
	if s.Durability == relaxed && !math.IsNaN(r.sum(w, normal, 0).Median) {
		return normal
	}
	return ours
}

// own reports that a system is Millrace.
func (s System) own() bool { return strings.HasPrefix(s.Name, ours) }

// compared reports that a metric says how good a system is; without a unit it only counts.
func (m metric) compared() bool { return m.unit != "" }

func (m metric) title() string {
	if m.unit == "" {
		return m.name
	}
	return m.name + ", " + m.unit
}

// times says how many times as good a is as b.
func (m metric) times(a, b float64, s System) string {
	if !m.high {
		a, b = b, a
	}
	text := chart.Number(a / b)
	if s.own() || text == chart.Nothing {
		return chart.Nothing
	}
	return text + " ×"
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// versions tells the versions of the systems' modules and servers.
func (w *world) versions(all []System) map[string]string {
	versions := map[string]string{}
	for _, s := range all {
		text := host.Versions(s.Modules)
		for name, server := range w.servers {
			kind, _, _ := strings.Cut(s.Name, "-")
			if kind == "redsync" || strings.HasPrefix(s.Name, onRedis) {
				kind = "redis"
			}
			if server.Server != nil && strings.HasPrefix(name, kind) && !strings.Contains(text, server.Version) {
				text += ", " + server.Version
			}
		}
		versions[s.Name] = strings.TrimPrefix(text, ", ")
	}
	return versions
}
