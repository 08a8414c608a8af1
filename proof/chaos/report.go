package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A report is what a run has measured and found.
type report struct {
	settings
	disturbed   map[kind]int
	notes       map[string]int
	sent        int
	tries       int64
	acked       int64
	decided     int
	stayed      int // reservations that were decided without an acknowledgement
	unacked     int
	doubled     int
	lost        int
	deliveries  int
	redelivered int
	afterKill   times
	afterStall  times
	lags        map[string]time.Duration
	emptied     time.Duration
	said        string // unusual lines in the server's log
	found       []finding
}

// views are the queues whose lag is the lag of a view.
func views() []string { return []string{"statuses", "months"} }

func (w *world) report(c *client, a *auditor, t trace, emptied time.Duration) *report {
	r := &report{
		settings: w.settings, disturbed: w.j.done, notes: w.j.notes,
		sent: len(w.orders), tries: c.tries.Load(), acked: c.acked.Load(),
		decided: a.decided, stayed: a.stayed, unacked: a.unacked, doubled: a.doubled, lost: a.lost,
		afterKill: t.afterKills(), afterStall: t.afterStalls(), lags: t.lags(), emptied: emptied,
	}
	r.deliveries, r.redelivered = t.count()
	if w.server != nil {
		r.said = w.server.trouble()
	}
	for _, rate := range w.rates() {
		switch {
		case w.j.done[rate.kind] > 0:
		case rate.kind == fullDisk && !w.disk.mounted && os.Getenv("CI") == "":
			r.notes["no full disk: a small one can't be mounted here (it takes Linux and root)"]++
		default:
			w.j.fault(wasDisturbed, "there was no %s", rate.kind)
		}
	}
	r.found = append(w.j.found, a.found...)
	return r
}

// print writes a report for people.
func (r *report) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(table, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	var done []string
	for _, rate := range rates() {
		if n := r.disturbed[rate.kind]; n > 0 {
			done = append(done, fmt.Sprintf("%d × %s", n, rate.kind))
		}
	}
	row("disturbed", "%s", strings.Join(done, ", "))
	row("sent", "%d reservations, in %d requests", r.sent, r.tries)
	row("acknowledged", "%d", r.acked)
	row("decided", "%d, among them %d of %d that were not acknowledged", r.decided, r.stayed, r.unacked)
	row("doubled", "%d", r.doubled)
	row("lost", "%d", r.lost)
	row("redelivered", "%d of %d deliveries", r.redelivered, r.deliveries)
	row("kill to next attempt", "%s", r.afterKill)
	row("stall to next attempt", "%s", r.afterStall)
	var stalled time.Duration
	var lags []string
	for _, q := range slices.Sorted(maps.Keys(r.lags)) {
		lags = append(lags, fmt.Sprintf("%s %.1fs", q, r.lags[q].Seconds()))
		if slices.Contains(views(), q) {
			stalled = max(stalled, r.lags[q])
		}
	}
	row("longest stall of a view", "%.1fs", stalled.Seconds())
	row("longest lag by queue", "%s", strings.Join(lags, ", "))
	row("queues empty after", "%.1fs of calm", r.emptied.Seconds())
	for _, what := range slices.Sorted(maps.Keys(r.notes)) {
		row("also", "%s: %d", what, r.notes[what])
	}
	if r.said != "" {
		row("the server says", "%s", r.said)
	}
	_ = table.Flush()
	printFound(out, r.settings, r.found)
}

func (r *report) good() bool { return len(r.found) == 0 }

// printFound ends a report.
func printFound(out io.Writer, s settings, found []finding) {
	const most = 20
	for _, f := range found[:min(len(found), most)] {
		_, _ = fmt.Fprintf(out, "  FOUND %v\n", f)
	}
	switch n := len(found); {
	case n == 0:
		_, _ = fmt.Fprintf(out, "%s, %s: the promise held\n", s.part, s.store)
	default:
		_, _ = fmt.Fprintf(out, "%s, %s: FAILED with %d findings; again: -part %s -store %s -n %d -for %v -seed %d; logs in %s\n", s.part, s.store, n, s.part, s.store, s.n, s.lasts, s.seed, s.dir)
	}
}

func (t times) String() string {
	if len(t) == 0 {
		return "no message was in hand"
	}
	return fmt.Sprintf("p50 %.1fs, p99 %.1fs, longest %.1fs, of %d messages", t.at(50).Seconds(), t.at(99).Seconds(), t[len(t)-1].Seconds(), len(t))
}
