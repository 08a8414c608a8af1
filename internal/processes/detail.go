package processes

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/process"
)

// detail is what the page of an instance shows.
type detail struct {
	Plan, ID, Status, Class string
	Whole                   string // link to the instance that a part belongs to
	About                   []string
	Msg, Tags, Critical     string
	Total                   string // length of the timeline
	Rows                    []stepRow
	Acts                    []string
	Missing                 []string
	Stuck                   []stuckRow
	Waits                   []waitRow
}

// waitRow is a step that waits for a signal: what it waits for, and the way to the form that sends the signal.
type waitRow struct{ Name, ID, Means, Form string }

// waitRows are the steps that wait for a signal. Of many it has the first.
func waitRows(s *process.Stream, to Ways) (all []waitRow) {
	const most = 20
	for i := range s.Lines {
		x := &s.Lines[i]
		if !Hears(x) || len(all) == most {
			continue
		}
		row := waitRow{Name: x.Name, ID: x.ID, Means: WaitsFor(x, clock)}
		if !strings.Contains(x.ID, "/") { // else the step is of a part
			row.Form = to.form("signal", s.ID, x.Topic)
		}
		all = append(all, row)
	}
	return all
}

// stepRow is a step of an instance, or its undo.
type stepRow struct {
	ID, Name, Status, Class, Took string
	Depth                         string // class of the indentation
	Critical                      bool
	Bars                          []bar
	Failed                        []string // where attempts have failed, from the left
	Says                          string   // the bars in words
	Remarks                       []string
}

// stuckRow is a step that is stuck, with what is known of it, and what an operator may do about it.
type stuckRow struct {
	StuckStep
	About    string // what is known of an attempt whose outcome is unknown
	Commands []wayOn
}

// wayOn is a command to copy, with what it says and the way to its form.
type wayOn struct{ Command, Means, Form string }

// stuckRows are the steps that are stuck, with commands to copy. Of many it has the first.
func stuckRows(s *process.Stream, command string, to Ways) (all []stuckRow) {
	const most = 20
	whole, _, _ := strings.Cut(s.ID, "/")
	for _, x := range Stuck(s) {
		if len(all) == most {
			break
		}
		row := stuckRow{StuckStep: x, About: x.Known(clock)}
		for _, w := range x.Ways() {
			line := fmt.Sprintf("%s processes %s %s %s --plan %s", command, w.Verb, act.ShellWord(s.ID), act.ShellWord(x.ID), s.Plan)
			row.Commands = append(row.Commands, wayOn{line, w.Means, to.form(w.Verb, s.ID, x.ID)})
		}
		if x.Doubt == nil {
			line := fmt.Sprintf("%s processes cancel %s --plan %s", command, act.ShellWord(whole), s.Plan)
			row.Commands = append(row.Commands, wayOn{line, "cancel the instance", to.form("cancel", whole, "")})
		}
		all = append(all, row)
	}
	return all
}

// bar is a bar of the timeline. X and Width are shares of its width.
type bar struct{ X, Width, Class, Title string }

// mostDepth is how deep steps are indented.
const mostDepth = 9

func newDetail(s *process.Stream, now time.Time, command string, to Ways) detail {
	t := s.Timeline(now)
	about := About(s, now, clock)
	about[0] = strings.ToUpper(about[0][:1]) + about[0][1:]
	d := detail{
		Plan: s.Plan, ID: s.ID, Status: string(s.Status), Class: class(s.Status), About: about, Msg: s.Msg, Tags: Tags(s.Tags),
		Critical: Critical(t), Total: Took(t.To.Sub(t.From)), Acts: Acts(s, clock), Missing: s.Missing, Stuck: stuckRows(s, command, to), Waits: waitRows(s, to),
	}
	if id, _, part := strings.Cut(s.ID, "/"); part {
		d.Whole = to.Whole(id)
	}
	for i := range s.Lines {
		if i == 0 { // the instance is the page
			continue
		}
		if len(d.Rows) >= mostRows {
			d.Missing = append(d.Missing, fmt.Sprintf("steps (%d): a page shows at most %d", len(s.Lines)-i, mostRows))
			break
		}
		d.Rows = append(d.Rows, stepRows(&s.Lines[i], t, t.Rows[i], now)...)
	}
	return d
}

// stepRows are the row of a step, and that of its undo.
func stepRows(x *process.Line, t *process.Timeline, row process.Row, now time.Time) []stepRow {
	step := stepRow{
		ID: x.ID, Name: x.Name, Status: string(x.Status), Class: class(x.Status), Took: TookUntil(x.Created, x.Timestamp, now), Depth: fmt.Sprintf("d%d", min(x.Depth-1, mostDepth)),
		Critical: row.Critical, Remarks: Remarks(x, now, clock),
	}
	undo := stepRow{Name: "undo of " + x.Name, Depth: fmt.Sprintf("d%d", min(x.Depth, mostDepth)), Remarks: UndoRemarks(x)}
	for _, b := range row.Bars {
		if b.Is == process.Undoes {
			undo.draw(t, b)
		} else {
			step.draw(t, b)
		}
	}
	if len(undo.Bars) == 0 {
		return []stepRow{step}
	}
	last := x.Undos[len(x.Undos)-1]
	undo.Status, undo.Class = string(last.Status), class(last.Status)
	undo.Took = TookUntil(last.Created, last.Ended, now)
	return []stepRow{step, undo}
}

// draw adds a bar.
func (r *stepRow) draw(t *process.Timeline, b process.Bar) {
	total := float64(t.To.Sub(t.From))
	share := func(at time.Time) float64 {
		if total <= 0 {
			return 0
		}
		return 100 * float64(at.Sub(t.From)) / total
	}
	from, to := share(b.From), share(b.To)
	words := string(b.Is) + " " + Took(b.To.Sub(b.From))
	if b.Failed != "" {
		words += fmt.Sprintf(", and attempt %d fails", b.Attempt)
		if b.Is != process.Undoes {
			r.Failed = append(r.Failed, percent(to))
		}
	}
	r.Bars = append(r.Bars, bar{percent(from), percent(max(0.3, to-from)), string(b.Is), words})
	if r.Says != "" {
		r.Says += "; "
	}
	r.Says += words
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", x) }
