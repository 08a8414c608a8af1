package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A coordReport is what a run of coordination has measured and found.
type coordReport struct {
	settings
	*history
	calmed    time.Duration
	disturbed map[kind]int
	notes     map[string]int
	found     []finding
}

func (r *coordReport) good() bool { return len(r.found) == 0 }

// print writes the report for people.
func (r *coordReport) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(table, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	var done []string
	for _, rate := range coordRates() {
		if n := r.disturbed[rate.kind]; n > 0 {
			done = append(done, fmt.Sprintf("%d × %s", n, rate.kind))
		}
	}
	row("disturbed", "%s", strings.Join(done, ", "))
	row("processes", "%d, %d at a time", len(r.lives), children)
	given := r.count(numbered, "")
	row("numbers", "%d, none twice; %d were lost", given, r.next-1-int64(given))
	for _, name := range []string{logName, leaderName} {
		row(name, "%s; %d entries; %d writes refused by the fence, %d late ones before the next holder's first",
			gaps(r.tenures(name)), len(r.entries[name]), r.count(refused, name), r.late(name))
	}
	row("lock over 3 stores", "%s", gaps(r.tenures(quorumName)))
	row("added", "%d of %d tries are known, and the sums are %d", r.count(added, ""), r.count(adding, ""), sum(r.sums))
	row("gates", "%d, passed %d times", r.rounds, r.count(passed, ""))
	row("signals to one", "%d sent, %d taken", r.count(sent, toOne), r.count(heard, toOne))
	row("signals to all", "%d sent, taken %d times", r.count(sent, toAll), r.count(heard, toAll))
	row("all work again after", "%.1fs of calm", r.calmed.Seconds())
	row("errors", "%d that disturbances explain", r.count(trouble, ""))
	for _, what := range slices.Sorted(maps.Keys(r.notes)) {
		row("also", "%s: %d", what, r.notes[what])
	}
	_ = table.Flush()
	printFound(out, r.settings, r.found)
}

func (r *coordReport) late(name string) (n int) {
	r.each(appended, func(_ string, l line) {
		if l.Name == name && l.Text != "" {
			n++
		}
	})
	return n
}

func sum(sums map[string]int64) (n int64) {
	for _, part := range sums {
		n += part
	}
	return n
}

// gaps tells how many holders there were, and how long nobody held.
func gaps(all []tenure) string {
	var gaps []time.Duration
	var last int64
	for _, t := range all {
		if last > 0 {
			gaps = append(gaps, max(0, time.Duration(t.begun-last)))
		}
		last = max(last, t.alive, t.begun)
	}
	if len(gaps) == 0 {
		return fmt.Sprintf("%d holders", len(all))
	}
	slices.Sort(gaps)
	return fmt.Sprintf("%d holders; from one's last sign to the next: p50 %.2fs, longest %.1fs", len(all), gaps[len(gaps)/2].Seconds(), gaps[len(gaps)-1].Seconds())
}
