package processes

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/process"
)

// A drawing is an instance for people, as lines that fit a width.
type drawing struct {
	*process.Stream
	time    *process.Timeline
	now     time.Time
	command string
	width   int
	clean   func(string) string
}

// Draw draws an instance as lines that fit a width. They tell of verbs of a program's command, as people type it. clean
// makes text from outside harmless, and may make the text longer.
func Draw(s *process.Stream, now time.Time, command string, width int, clean func(string) string) (all []string) {
	d := &drawing{s, s.Timeline(now), now, command, width, clean}
	all = append(d.head(), "")
	all = append(all, d.table()...)
	return append(all, d.foot()...)
}

// The marks of what a step did, and what they mean, in the order of the legend.
const (
	markHolds, markWaits, markAsks, markWorks, markUndoes, markFailed, markCritical = '.', '-', '?', '=', '<', 'x', '*'
)

func marks() []struct {
	mark  rune
	about string
} {
	return []struct {
		mark  rune
		about string
	}{{markHolds, "other steps run"}, {markWaits, "waits"}, {markAsks, "was asked"}, {markWorks, "works"}, {markUndoes, "is undone"}, {markFailed, "attempt failed"}, {markCritical, "critical path"}}
}

// A row is a line of the table. The text below it explains it.
type row struct {
	id, name, status, took string
	bars                   []process.Bar
	critical               bool
	below                  []string
}

// head says what instance it is, and how it stands.
func (d *drawing) head() (all []string) {
	about := About(d.Stream, d.now, act.Clock)
	about[0] = fmt.Sprintf("%s %s: %s, %s", d.Plan, d.ID, d.Status, about[0])
	if len(d.Tags) > 0 {
		about = append(about, "Tags: "+Tags(d.Tags))
	}
	for _, line := range about {
		all = append(all, d.wrapped(d.clean(line), "")...)
	}
	if d.Msg != "" {
		all = append(all, d.wrapped(d.clean(d.Msg), "  ")...)
	}
	return all
}

// rows are the steps.
func (d *drawing) rows() (rows []row) {
	for i := range d.Lines[1:] {
		x, t := &d.Lines[i+1], d.time.Rows[i+1]
		indent := strings.Repeat("  ", x.Depth-1)
		r := row{id: d.clean(x.ID), name: indent + d.clean(x.Name), status: d.clean(string(x.Status)), critical: t.Critical}
		r.took = TookUntil(x.Created, x.Timestamp, d.now)
		var undos []process.Bar
		for _, b := range t.Bars {
			if b.Is == process.Undoes {
				undos = append(undos, b)
			} else {
				r.bars = append(r.bars, b)
			}
		}
		r.below = Remarks(x, d.now, act.Clock)
		rows = append(rows, r)
		if len(undos) > 0 {
			rows = append(rows, d.undoRow(x, indent, undos))
		}
	}
	return rows
}

// undoRow is the row of a step's undos.
func (d *drawing) undoRow(x *process.Line, indent string, bars []process.Bar) row {
	last := x.Undos[len(x.Undos)-1]
	r := row{name: indent + "  undo", status: d.clean(string(last.Status)), bars: bars}
	r.took = TookUntil(bars[0].From, last.Ended, d.now)
	r.below = UndoRemarks(x)
	return r
}

// A layout is the width of the table's columns; 0 leaves one out.
type layout struct{ id, name, status, took, bar int }

const (
	leastBar  = 12
	leastName = 16
	mostBar   = 60
)

// fit divides the width among the columns. IDs are never cut, because the acts take them.
func (d *drawing) fit(rows []row) layout {
	l := layout{id: 2, name: 4, status: 6, took: 4}
	for _, r := range rows {
		l.id, l.name = max(l.id, wide(r.id)), max(l.name, wide(r.name))
		l.status, l.took = max(l.status, wide(r.status)), max(l.took, wide(r.took))
	}
	const gaps = 2*3 + 2 + 4 // and the mark of the critical path, and the ends of the bar
	left := d.width - l.id - l.status - l.took - gaps
	if l.name > left-leastBar {
		l.name = min(l.name, max(leastName, left-leastBar))
	}
	if l.bar = min(mostBar, left-l.name); l.bar >= leastBar {
		return l
	}
	l.bar = 0
	left += 4 + l.took
	if l.name > left-l.took-2 {
		l.took = 0
	}
	l.name = min(l.name, max(leastName, left-l.took-2))
	return l
}

func wide(s string) int { return utf8.RuneCountInString(s) }

// pad brings a text to a width, on the right or on the left.
func pad(s string, width int, right bool) string {
	if r := []rune(s); len(r) > width {
		s = string(r[:max(0, width-1)]) + "…"
	}
	space := strings.Repeat(" ", width-wide(s))
	if right {
		return space + s
	}
	return s + space
}

// table draws the steps, and their times as bars.
func (d *drawing) table() (all []string) {
	rows := d.rows()
	l := d.fit(rows)
	total := d.time.To.Sub(d.time.From)
	if l.bar > 0 {
		all = append(all, d.line(l, row{id: "ID", name: "STEP", status: "STATUS", took: "TOOK"}, "0s"+pad(Took(total), l.bar, true)))
	} else {
		all = append(all, d.line(l, row{id: "ID", name: "STEP", status: "STATUS", took: "TOOK"}, ""))
	}
	used := map[rune]bool{}
	for _, r := range rows {
		bar := ""
		if l.bar > 0 {
			bar = "|" + d.bar(r.bars, l.bar, used) + "|"
		}
		used[markCritical] = used[markCritical] || r.critical
		all = append(all, d.line(l, r, bar))
		indent := strings.Repeat(" ", min(l.id+2+leadingBlanks(r.name)+2, d.width/2))
		for _, text := range r.below {
			all = append(all, d.wrapped(d.clean(text), indent)...)
		}
	}
	var legend []string
	for _, m := range marks() {
		if used[m.mark] {
			legend = append(legend, string(m.mark)+" "+m.about)
		}
	}
	if len(legend) > 0 && l.bar > 0 {
		all = append(all, "")
		all = append(all, d.wrapped(strings.Join(legend, ", "), "")...)
	}
	return all
}

func leadingBlanks(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }

// line is a row of the table.
func (d *drawing) line(l layout, r row, bar string) string {
	text := pad(r.id, l.id, false) + "  " + pad(r.name, l.name, false) + "  " + pad(r.status, l.status, false)
	if l.took > 0 {
		text += "  " + pad(r.took, l.took, true)
	}
	if l.bar > 0 {
		critical := " "
		if r.critical {
			critical = string(markCritical)
		}
		text += " " + critical + " " + bar
	}
	return strings.TrimRight(text, " ")
}

// bar draws what a step did.
func (d *drawing) bar(bars []process.Bar, width int, used map[rune]bool) string {
	cells := []rune(strings.Repeat(" ", width))
	total := d.time.To.Sub(d.time.From)
	at := func(t time.Time) float64 {
		if total <= 0 {
			return 0
		}
		return float64(width) * float64(t.Sub(d.time.From)) / float64(total)
	}
	var failed []int
	for _, b := range bars {
		from := max(0, min(width-1, int(at(b.From))))
		to := max(from, min(width-1, int(math.Ceil(at(b.To)-0.001))-1)) // where the next cell begins it has ended
		for i := from; i <= to; i++ {
			cells[i] = markOf(b.Is)
		}
		if b.Failed != "" && b.Is != process.Undoes {
			failed = append(failed, to)
		}
	}
	for _, i := range failed { // the next bar may begin in the same cell
		cells[i] = markFailed
	}
	for _, m := range cells {
		used[m] = true
	}
	return string(cells)
}

func markOf(a process.Activity) rune {
	switch a {
	case process.Waits:
		return markWaits
	case process.Asks:
		return markAsks
	case process.Works:
		return markWorks
	case process.Undoes:
		return markUndoes
	}
	return markHolds
}

// foot says what the table can't: the critical path, what people did, and what can be done.
func (d *drawing) foot() (all []string) {
	say := func(format string, args ...any) {
		all = append(all, d.wrapped(d.clean(fmt.Sprintf(format, args...)), "")...)
	}
	if path := Critical(d.time); path != "" {
		say("%s", path)
	}
	for _, line := range Acts(d.Stream, act.Clock) {
		say("%s", line)
	}
	for _, x := range d.Missing {
		say("Not shown: %s.", x)
	}
	id := act.ShellWord(d.ID)
	for _, x := range Stuck(d.Stream) {
		if x.Doubt == nil {
			say("Step %s is stuck. %s processes retry %s %s tries it again; skip, rerun and cancel give it up.", x, d.command, id, x.ID)
			continue
		}
		say("Step %s is stuck. %s", x, x.Known(act.Clock))
		for _, w := range x.Ways() {
			say("- %s processes %s %s %s: %s.", d.command, w.Verb, id, x.ID, w.Means)
		}
	}
	if len(all) > 0 {
		all = append([]string{""}, all...)
	}
	return all
}

// wrapped breaks a text at blanks, and indents its lines.
func (d *drawing) wrapped(text, indent string) (all []string) {
	width := max(20, d.width-len(indent))
	line := ""
	for _, word := range strings.Fields(text) {
		for wide(word) > width { // nothing to break at
			if line != "" {
				all = append(all, indent+line)
				line = ""
			}
			r := []rune(word)
			all = append(all, indent+string(r[:width]))
			word = string(r[width:])
		}
		switch {
		case line == "":
			line = word
		case wide(line)+1+wide(word) > width:
			all = append(all, indent+line)
			line = word
		default:
			line += " " + word
		}
	}
	if line != "" {
		all = append(all, indent+line)
	}
	return all
}
