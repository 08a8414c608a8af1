package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/internal/chart"
)

var headings = map[child.Work]string{
	child.Send1:    "Send, one sender",
	child.Send16:   "Send, 16 senders",
	child.Batch:    "Send, one sender, 500 in a call",
	child.Drain:    "Drain of a backlog",
	child.Balanced: "Send and handle, 16 senders that pause above 2,000 outstanding",
	child.Latency:  "Latency in an idle system, from the call of Send to the handler",
	child.Paced:    "Latency while 500 jobs a second are sent, from the call of Send to the handler",
	child.Waiting:  "Memory of the server for a waiting job, of which its JSON takes some 200 bytes",
	child.Idle:     "Idle cost (operations are calls of the store or the bare loop, statements on others' SQLite but BEGIN and COMMIT, PostgreSQL's transactions or Redis's commands)",
	child.Sync:     "The disk: 4 KiB overwritten and synced",
}

// A column is a cell of each row.
type column struct {
	title string
	of    func(System) string
}

// markdown writes a table for each work, and a description of the systems.
func (r *Report) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %s repetitions, [lowest, highest]; %v for each rate, a backlog of %s; %s.\n", r.repetitions(), r.For, chart.Number(float64(r.Backlog)), r.Machine)
	b.WriteString("“×” is how many times as good: more jobs, or less time. Strict: a job that was sent survives a power failure. Relaxed: it may not. Servers run on the same machine, behind Unix sockets.\n")
	fmt.Fprintf(&b, "N is how many jobs were counted: after a warm-up of a third of the time or a tenth of the backlog, and a drain for at most %v. Latency is of one job at a time, 60 to 300 ms apart: of so few, the p99 is about the longest.\n", 4*r.For)
	fmt.Fprintf(&b, "The host gave others at most %s %% of this machine's processor time during a measurement, in the middle one %s %%.\n", chart.Number(100*r.stolen().Max), chart.Number(100*r.stolen().Median))
	for _, s := range r.Systems {
		if strings.Contains(r.versions(s.Name), "; ") {
			fmt.Fprintf(&b, "%s was measured in more than one version, see below.\n", s.Title)
		}
	}
	for _, work := range child.Works {
		r.work(&b, work)
	}
	b.WriteString("\n### What was measured\n")
	table(&b, r.Systems, []column{
		{"system", func(s System) string { return s.Title }},
		{"durability", func(s System) string { return string(s.Durability) }},
		{"versions", func(s System) string { return r.versions(s.Name) }},
		{"settings", func(s System) string { return s.Settings }},
		{"from", func(s System) string { return s.Source }},
	})
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

func (r *Report) work(b *strings.Builder, work child.Work) {
	ms := metrics[work]
	rows := r.rows(work, ms[0])
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n", headings[work])
	columns := []column{
		{"system", func(s System) string { return s.Title }},
		{"durability", func(s System) string { return string(s.Durability) }},
	}
	for _, m := range ms {
		columns = append(columns, r.columns(work, m)...)
	}
	if work == child.Idle {
		columns = append(columns,
			r.split("client + server, s/min", work, perMinute),
			column{"store operations/min", func(s System) string {
				if all := r.of(s.Name, work); all[0].Operations == child.Unknown {
					return chart.Nothing
				}
				return chart.Number(r.sum(s.Name, work, func(s child.Sample) float64 { return perMinute(s, float64(s.Operations)) }).Median)
			}})
	} else {
		switch work {
		case child.Waiting:
		case child.Latency:
			columns = append(columns, column{"p99 of all repetitions, ms", func(s System) string {
				return chart.Number(r.p99(s))
			}})
		default:
			columns = append(columns, r.split("CPU µs a job, client + server", work, func(s child.Sample, v float64) float64 { return v * 1e6 / float64(s.N) }))
		}
		columns = append(columns, column{"N", func(s System) string {
			n := r.sum(s.Name, work, func(s child.Sample) float64 { return float64(s.N) }).Median
			if math.IsNaN(n) {
				return chart.Nothing
			}
			return chart.Whole(int(n))
		}})
	}
	table(b, rows, columns)
}

// columns are the columns of a metric.
func (r *Report) columns(work child.Work, m metric) []column {
	median := func(name string) float64 { return r.sum(name, work, m.of).Median }
	times := func(a, b float64) string {
		if text := chart.Number(m.times(a, b)); text != chart.Nothing {
			return text + " ×"
		}
		return chart.Nothing
	}
	all := []column{{m.name + ", " + strings.TrimSpace(m.unit), func(s System) string {
		v := r.sum(s.Name, work, m.of)
		return fmt.Sprintf("%s [%s, %s]", chart.Number(v.Median), chart.Number(v.Min), chart.Number(v.Max))
	}}}
	if work == child.Sync {
		return all
	}
	return append(all,
		column{"to the best peer of its durability", func(s System) string {
			if s.Role == Limit {
				return chart.Nothing
			}
			return times(median(s.Name), r.best(work, m, s.Durability))
		}},
		column{"Millrace to it", func(s System) string {
			if s.Role != Peer {
				return chart.Nothing
			}
			return times(median("millrace"), median(s.Name))
		}},
		column{"to raw SQLite", func(s System) string { return times(median(s.Name), median("raw")) }},
		column{"to its prototype", func(s System) string { return times(median(s.Name), median("prototype")) }})
}

// split shows the CPU time of client and server.
func (r *Report) split(title string, work child.Work, per func(s child.Sample, v float64) float64) column {
	return column{title, func(s System) string {
		client := r.sum(s.Name, work, func(s child.Sample) float64 { return per(s, s.ClientCPU) }).Median
		server := r.sum(s.Name, work, func(s child.Sample) float64 { return per(s, s.ServerCPU) }).Median
		return chart.Number(client) + " + " + chart.Number(server)
	}}
}

// versions are the versions of a system: several if it was changed before the run was resumed.
func (r *Report) versions(name string) string {
	var all []string
	for _, s := range r.Samples {
		if s.System == name && s.Versions != "" && !slices.Contains(all, s.Versions) {
			all = append(all, s.Versions)
		}
	}
	return cmp.Or(strings.Join(all, "; "), chart.Nothing)
}

func table(b *strings.Builder, rows []System, columns []column) {
	b.WriteString("\n|")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, s := range rows {
		b.WriteString("|")
		for _, c := range columns {
			b.WriteString(" " + c.of(s) + " |")
		}
		b.WriteString("\n")
	}
}
