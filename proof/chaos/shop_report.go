package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace-go/millrace/process"
)

// A shopReport is what a run of processes has measured and found.
type shopReport struct {
	settings
	*shopHistory
	calmed, took time.Duration
	refunded     int // charges of stopped agents
	killed       map[string]int64
	disturbed    map[kind]int
	notes        map[string]int
	found        []finding
}

func (w *shopWorld) shopReport(h *shopHistory, found []finding) *shopReport {
	killed := map[string]int64{}
	for _, p := range w.staff {
		for _, l := range p.all() {
			if !l.killed.IsZero() {
				killed[lifeOf(p.name, l.cmd.Process.Pid)] = clock() - int64(time.Since(l.killed))
			}
		}
	}
	return &shopReport{
		settings: w.settings, shopHistory: h, calmed: w.calmed, took: w.took, refunded: w.refunded, killed: killed,
		disturbed: w.j.done, notes: w.j.notes, found: append(w.j.found, found...),
	}
}

func (r *shopReport) good() bool { return len(r.found) == 0 }

// print writes the report for people.
func (r *shopReport) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(table, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	var done []string
	for _, rate := range shopRates() {
		if n := r.disturbed[rate.kind]; n > 0 {
			done = append(done, fmt.Sprintf("%d × %s", n, rate.kind))
		}
	}
	row("disturbed", "%s", strings.Join(done, ", "))
	row("instances", "%d: %s", len(r.documents), r.ends())
	made := map[what]int{}
	for _, d := range r.deeds {
		made[d.What]++
	}
	row("bank and carrier", "%d effects, %d of them undone; %d repeats of a key, %d requests turned away", made[deedDone], made[deedUndone], made[deedAgain], made[deedAway])
	row("came too late", "%s; %d of a stopped agent, and refunded", r.late(), r.refunded)
	steps := r.steps()
	row("steps", "%d, %.1f a second", steps, float64(steps)/r.took.Seconds())
	row("kill to next step", "%s", inHand(r.afterKills()))
	row("nothing moves after", "%.1fs of calm", r.calmed.Seconds())
	for _, what := range slices.Sorted(maps.Keys(r.notes)) {
		row("also", "%s: %d", what, r.notes[what])
	}
	_ = table.Flush()
	printFound(out, r.settings, r.found)
}

// ends counts the instances by their ends.
func (h *shopHistory) ends() string {
	n := map[string]int{}
	for _, d := range h.documents {
		n[d.ending()]++
	}
	var all []string
	for _, end := range slices.Sorted(maps.Keys(n)) {
		all = append(all, fmt.Sprintf("%d %s", n[end], end))
	}
	return strings.Join(all, ", ")
}

// ending says how an instance has ended, and at which step.
func (d *document) ending() string {
	if d.Status != process.Aborted {
		return string(d.Status)
	}
	for _, l := range slices.Backward(d.Lines) { // the innermost step comes last
		if l.Msg == d.Msg {
			why := "failed"
			if strings.HasPrefix(d.Msg, "refused: ") {
				why = "refused"
			} else if strings.HasPrefix(d.Msg, "no end within ") {
				why = "out of time"
			}
			return fmt.Sprintf("%s at %q", why, l.Name)
		}
	}
	return d.Msg
}

// late counts the successes that came after their steps had ended in another way, by step.
func (h *shopHistory) late() string {
	n := map[string]int{}
	for _, d := range h.documents {
		for _, l := range d.Lines {
			for _, u := range l.Undos {
				if u.Late {
					n[l.Name]++
				}
			}
		}
	}
	var all []string
	for _, step := range slices.Sorted(maps.Keys(n)) {
		all = append(all, fmt.Sprintf("%d × %s", n[step], step))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// steps counts the steps that have ended, and their undos.
func (h *shopHistory) steps() (n int) {
	for _, d := range h.documents {
		for _, l := range d.Lines {
			n += max(1, l.Items) + len(l.Undos)
		}
	}
	return n
}

// afterKills returns, for each instance that an agent worked on when its worker was killed, the time from the kill to
// the next line of any agent for that instance. One that had no further step doesn't count.
func (r *shopReport) afterKills() (all times) {
	for life, at := range r.killed {
		working := map[string]int{} // agents by instance
		for _, l := range r.lives[life] {
			switch l.What {
			case stepBegun:
				working[l.Name]++
			case stepOver:
				working[l.Name]--
			}
		}
		for order, n := range working {
			if next := r.nextLine(order, at); n > 0 && next < math.MaxInt64 {
				all = append(all, time.Duration(next-at))
			}
		}
	}
	slices.Sort(all)
	return all
}

// nextLine returns when the first agent worked for an instance after a moment.
func (h *shopHistory) nextLine(order string, after int64) int64 {
	next := int64(math.MaxInt64)
	for _, lines := range h.lives {
		for _, l := range lines {
			if l.Name == order && l.What == stepBegun && l.At > after {
				next = min(next, l.At)
				break
			}
		}
	}
	return next
}

func inHand(t times) string {
	if len(t) == 0 {
		return "no agent worked"
	}
	return fmt.Sprintf("p50 %.2fs, p99 %.1fs, longest %.1fs, of %d instances", t.at(50).Seconds(), t.at(99).Seconds(), t[len(t)-1].Seconds(), len(t))
}
