package process

import (
	"slices"
	"time"

	"github.com/millrace-go/millrace/process/internal/flow"
)

// An Activity is what a step did for a while.
type Activity string

// The activities.
const (
	Waits  Activity = "waits"  // for a signal, a time, a free agent, its next attempt, or somebody to act
	Asks   Activity = "asks"   // an agent, or a command; nobody has said when it began
	Works  Activity = "works"  // an agent
	Undoes Activity = "undoes" // what was done is being taken back
	Holds  Activity = "holds"  // other steps, which tell more
)

// A Bar is a while of a step's time.
type Bar struct {
	Is       Activity
	From, To time.Time
	Attempt  int    // 0: of none
	Failed   string // why the attempt at its end failed
	Open     bool   // it goes on; To is now
}

// A Row is what a line of a stream did.
type Row struct {
	Bars     []Bar
	Critical bool // the instance would have ended sooner if the line had; see [Timeline]
}

// A Timeline is what an instance spent its time on. A line is on the critical path if what came next had to wait for
// it: of branches side by side, the one that ended last. The times of agents are by their own clocks, which may differ;
// they are kept between the step's order and its end.
type Timeline struct {
	From, To time.Time // To is now, if the instance has not ended
	Rows     []Row     // of the stream's lines, in their order

	Waiting, Asking, Working time.Duration // of the critical path
}

// Timeline returns the stream's timeline, as it is now.
func (s *Stream) Timeline(now time.Time) *Timeline {
	t := &Timeline{From: s.Created, To: now, Rows: make([]Row, len(s.Lines))}
	if !s.Ended.IsZero() {
		t.To = s.Ended
	}
	for i := range s.Lines {
		t.Rows[i].Bars = s.Lines[i].bars(now)
		for _, b := range t.Rows[i].Bars {
			if t.From.IsZero() || b.From.Before(t.From) {
				t.From = b.From
			}
			if b.To.After(t.To) {
				t.To = b.To
			}
		}
	}
	if len(s.Lines) > 0 {
		newPaths(s, t, now).mark(0)
	}
	return t
}

// bars returns what a line did.
func (x *Line) bars(now time.Time) (all []Bar) {
	if x.Created.IsZero() {
		return nil
	}
	end, open := x.end(now), x.Open()
	switch flow.Verb(x.Verb) {
	case flow.Wait, flow.Sleep:
		all = x.bar(nil, Waits, x.Created, end, open)
	case flow.Then, flow.Pivot:
		all = append(all, Bar{Is: Works, From: x.Created, To: end})
		if open { // it is stuck
			all = x.bar(nil, Waits, x.Created, end, true)
		}
	case flow.Ask:
		all = x.bar(nil, Asks, x.Created, end, open)
	case flow.Do:
		all = x.attempts(end, open)
	case flow.Each:
		if x.Next == "" {
			return x.bar(nil, Works, x.Created, end, open)
		}
		fallthrough
	default:
		all = x.bar(nil, Holds, x.Created, end, open)
	}
	for _, u := range x.Undos {
		if !u.Created.IsZero() && u.Status != flow.Skipped {
			b := Bar{Is: Undoes, From: u.Created, To: u.Ended, Attempt: u.Attempt, Failed: u.Msg}
			if b.Open = !u.Status.Final(); b.Open || b.To.Before(b.From) {
				b.To = later(now, b.From)
			}
			all = append(all, b)
		}
	}
	return all
}

// end is when a line ended, or now.
func (x *Line) end(now time.Time) time.Time {
	if !x.Timestamp.IsZero() {
		return later(x.Timestamp, x.Created)
	}
	return later(now, x.Created)
}

// attempts returns the bars of an agent's step.
func (x *Line) attempts(end time.Time, open bool) (all []Bar) {
	at := x.Created
	for _, f := range x.Failures {
		all = x.attempt(all, at, f.Began, within(f.At, at, end), f.N, f.Msg)
		at = within(f.At, at, end)
	}
	switch {
	case !at.Before(end) && len(all) > 0:
	case x.Status == Stuck:
		all = x.bar(all, Waits, at, end, true)
	case open:
		due := within(x.Due, at, end)
		all = x.bar(all, Waits, at, due, false)
		if all = x.bar(all, Asks, due, end, true); len(all) > 0 {
			all[len(all)-1].Attempt = x.Attempt
		}
	case x.Status == Completed || x.Status == Undone:
		all = x.attempt(all, at, x.Began, end, x.Attempt, "")
	default: // it was not heard of any more
		all = x.bar(all, Asks, at, end, false)
	}
	return all
}

// attempt appends an attempt that was ordered, began and ended.
func (x *Line) attempt(all []Bar, ordered, began, end time.Time, n int, failed string) []Bar {
	is := Works
	if began.IsZero() {
		is, began = Asks, ordered
	}
	began = within(began, ordered, end)
	all = x.bar(all, Waits, ordered, began, false)
	return append(all, Bar{Is: is, From: began, To: end, Attempt: n, Failed: failed})
}

// bar appends a bar, unless nothing was done for no time.
func (x *Line) bar(all []Bar, is Activity, from, to time.Time, open bool) []Bar {
	if !open && !to.After(from) && (len(all) > 0 || is == Waits) {
		return all
	}
	return append(all, Bar{Is: is, From: from, To: to, Open: open})
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// within is a time, kept between two others.
func within(t, from, to time.Time) time.Time {
	if t = later(t, from); t.After(to) {
		return to
	}
	return t
}

// paths finds the critical path through the lines of a stream.
type paths struct {
	s        *Stream
	t        *Timeline
	now      time.Time
	children map[string][]int
}

func newPaths(s *Stream, t *Timeline, now time.Time) *paths {
	p := &paths{s: s, t: t, now: now, children: map[string][]int{}}
	for i, x := range s.Lines {
		if i > 0 {
			p.children[x.Prev] = append(p.children[x.Prev], i)
		}
	}
	return p
}

// mark marks a line, and those within it that it had to wait for.
func (p *paths) mark(i int) {
	p.t.Rows[i].Critical = true
	for _, b := range p.t.Rows[i].Bars {
		switch took := b.To.Sub(b.From); b.Is {
		case Waits:
			p.t.Waiting += took
		case Asks:
			p.t.Asking += took
		case Works:
			p.t.Working += took
		}
	}
	x := &p.s.Lines[i]
	for _, c := range p.lastOf(x, p.children[x.ID]) {
		p.mark(c)
	}
}

// lastOf returns the lines within a line that it had to wait for. Lines of one branch come one after the other.
func (p *paths) lastOf(x *Line, children []int) []int {
	var branches [][]int
	var names []string
	var instead []int // the steps of an Else
	for _, c := range children {
		line := &p.s.Lines[c]
		name := line.branch
		if partNumber.MatchString(line.ID) {
			name = line.ID
		}
		if isElse(line.branch, x) {
			instead = append(instead, c)
			continue
		}
		k := slices.Index(names, name)
		if k < 0 {
			k, names, branches = len(names), append(names, name), append(branches, nil)
		}
		branches[k] = append(branches[k], c)
	}
	var last []int
	for _, b := range branches {
		if last == nil || p.decides(x, b, last) {
			last = b
		}
	}
	return append(slices.Clone(last), instead...)
}

// isElse reports that a branch is the Else of a line's step.
func isElse(branch string, x *Line) bool {
	return len(branch) > 3 && branch[len(branch)-3:] == ".00" && !partNumber.MatchString(x.ID)
}

// decides reports that a step had to wait for branch a rather than b. An Any waits for the first that ends well, and a
// step that has failed for the one that has failed first.
func (p *paths) decides(x *Line, a, b []int) bool {
	endA, endB := p.endOf(a), p.endOf(b)
	want := Status("")
	switch {
	case x.Status == Aborted:
		want = Aborted
	case x.Verb == string(flow.Any) && x.Status == Completed:
		want = Completed
	}
	isA, isB := p.endsAs(a, want), p.endsAs(b, want)
	switch {
	case isA != isB:
		return isA
	case isA:
		return endA.Before(endB)
	}
	return endA.After(endB)
}

// endOf is when the last step of a branch ended.
func (p *paths) endOf(branch []int) (end time.Time) {
	for _, i := range branch {
		end = later(end, p.s.Lines[i].end(p.now))
	}
	return end
}

// endsAs reports how the last step of a branch has ended.
func (p *paths) endsAs(branch []int, want Status) bool {
	return p.s.Lines[branch[len(branch)-1]].Status == want
}
