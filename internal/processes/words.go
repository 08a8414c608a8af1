package processes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/process"
)

// Took is a time that something took, in short.
func Took(d time.Duration) string {
	switch d = max(0, d); {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return act.Age(d)
}

// TookUntil is the time from one moment to another. Without a second one it goes on.
func TookUntil(from, to, now time.Time) string {
	switch {
	case from.IsZero():
		return ""
	case to.IsZero():
		return Took(now.Sub(from)) + "+"
	}
	return Took(to.Sub(from))
}

// Tags are an instance's tags in a line.
func Tags(tags map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, k+"="+tags[k])
	}
	return strings.Join(all, " ")
}

// Remarks say what the name, the status and the times of a step don't say: the items, the attempts, and why the step
// failed. clock tells a time.
func Remarks(x *process.Line, now time.Time, clock func(time.Time) string) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if x.Items > 0 {
		text := act.Count(x.Items, "item")
		if x.Left > 0 {
			text = fmt.Sprintf("%d of %s left", x.Left, text)
		}
		if x.Failed > 0 {
			text += fmt.Sprintf(", %d failed", x.Failed)
		}
		say("%s", text)
	}
	if x.Hidden > 0 {
		say("%s not shown", act.Count(x.Hidden, "part"))
	}
	if x.Open() && x.Due.After(now) {
		say("attempt %d begins in %s", x.Attempt, Took(x.Due.Sub(now)))
	}
	switch waits := WaitsFor(x, clock); {
	case waits != "":
		say("%s", waits)
	case x.Open() && !x.Timeout.IsZero():
		say("until %s", clock(x.Timeout))
	}
	if x.Canceling {
		say("it was told to stop")
	}
	switch n := len(x.Failures); {
	case x.Msg == "":
	case n > 0 && (x.Status == process.Completed || x.Status == process.Undone || x.Status == process.Undoing):
		say("after %s: %s", act.Count(x.Attempt-1, "failed attempt"), x.Msg)
	case n > 0:
		say("attempt %d: %s", x.Failures[n-1].N, x.Msg)
	default:
		say("%s", x.Msg)
	}
	if x.Twice > 0 {
		say("another result %s", times(x.Twice))
	}
	if x.Late > 0 {
		say("%s after its end", act.Count(x.Late, "answer"))
	}
	return all
}

// Hears reports that a step waits for a signal now.
func Hears(x *process.Line) bool { return x.Verb == "wait" && x.Open() && x.Topic != "" }

// WaitsFor says for which signal a step waits, since when, until when, and what happens then. It is "" for a step that
// waits for none. clock tells a time.
func WaitsFor(x *process.Line, clock func(time.Time) string) string {
	if !Hears(x) {
		return ""
	}
	text := fmt.Sprintf("waits for a signal of kind %s since %s", x.Topic, clock(x.Created))
	switch {
	case x.Timeout.IsZero():
		return text + ", for any time"
	case x.Else:
		return text + fmt.Sprintf("; without it the step fails at %s, and the steps run that the plan has for that", clock(x.Timeout))
	}
	return text + fmt.Sprintf("; without it the step fails at %s, and what was done before is undone", clock(x.Timeout))
}

// Waited are the kinds of signals that steps of an instance wait for now.
func Waited(s *process.Stream) (kinds []string) {
	for i := range s.Lines {
		if x := &s.Lines[i]; Hears(x) && !strings.Contains(x.ID, "/") {
			kinds = append(kinds, x.Topic)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// UndoRemarks say why undos of a step failed. Of many it has the first.
func UndoRemarks(x *process.Line) (all []string) {
	const most = 3
	for _, u := range x.Undos {
		if u.Msg != "" && len(all) < most {
			all = append(all, fmt.Sprintf("attempt %d: %s", u.Attempt, u.Msg))
		}
	}
	return all
}

// times is how often something happened.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// About says of which version an instance is, and since when.
func About(s *process.Stream, now time.Time, clock func(time.Time) string) []string {
	what := fmt.Sprintf("version %d", s.Version)
	if s.Run > 0 {
		what += ", run again " + times(s.Run)
	}
	if s.Created.IsZero() {
		return []string{what}
	}
	when := "Started " + clock(s.Created)
	switch {
	case !s.Ended.IsZero():
		when += ", ended after " + Took(s.Ended.Sub(s.Created)) + ", " + Took(now.Sub(s.Ended)) + " ago"
	case !s.By.IsZero():
		when += ", " + Took(now.Sub(s.Created)) + " ago, must end by " + clock(s.By)
	default:
		when += ", " + Took(now.Sub(s.Created)) + " ago"
	}
	return []string{what, when + "."}
}

// Acts are what people did with an instance, and what has come for nobody, one a line.
func Acts(s *process.Stream, clock func(time.Time) string) (all []string) {
	notes := slices.Clone(s.Notes)
	if s.Cancel != nil {
		notes = append(notes, *s.Cancel)
	}
	slices.SortStableFunc(notes, func(a, b process.Note) int { return a.At.Compare(b.At) })
	for _, n := range notes {
		all = append(all, noted(n, clock))
	}
	for _, kind := range s.Early {
		all = append(all, "A signal waits for a step that has not begun: "+kind)
	}
	return all
}

// noted is what somebody did.
func noted(n process.Note, clock func(time.Time) string) string {
	text := clock(n.At)
	if n.By != "" {
		text += " " + n.By
	}
	text += ": " + n.Do
	if n.Path != "" {
		text += " " + n.Path
	}
	if n.Why != "" {
		text += ", because: " + n.Why
	}
	return text
}

// Critical says what the critical path of a timeline was spent on, or "".
func Critical(t *process.Timeline) string {
	if t.Working+t.Waiting+t.Asking <= 0 {
		return ""
	}
	return fmt.Sprintf("Critical path: %s of work, %s of waiting, %s between a question and its answer.", Took(t.Working), Took(t.Waiting), Took(t.Asking))
}

// A StuckStep is a step that is stuck, or whose undo is.
type StuckStep struct {
	ID, Name, Why string

	Doubt *process.Line // the step, if nobody knows what its last attempt has done; nil: that is known
}

// A Way is an act on a step that is stuck, and what somebody says by the act.
type Way struct{ Verb, Means string }

// These texts are what somebody says by an act on a step of which nobody knows whether its effect has happened.
const (
	SkipMeans  = "the effect has happened: the step counts as done, and the instance goes on"
	RetryMeans = "the effect has not happened, or happens once under one key: the step is done again with the same key"
	FailMeans  = "the effect has not happened, and nobody shall try again: what was done before is undone"
)

// Ways are the acts on a step that is stuck, the first choice first.
func (x StuckStep) Ways() []Way {
	if x.Doubt != nil {
		return []Way{{"skip", SkipMeans}, {"retry", RetryMeans}, {"fail", FailMeans}}
	}
	return []Way{{"retry", "try it again"}, {"skip", "let it count as done"}}
}

// Known is what is known of an attempt of which nobody knows what it has done. It is "" for a step of which that is
// known. clock tells a time.
func (x StuckStep) Known(clock func(time.Time) string) string {
	s := x.Doubt
	if s == nil {
		return ""
	}
	what := fmt.Sprintf("attempt %d", s.Attempt)
	if s.Items > 0 {
		what = "the attempts of some items"
	}
	text := fmt.Sprintf("Nobody knows whether the effect of %s has happened.", what)
	if n := len(s.Failures); n > 0 {
		f := s.Failures[n-1]
		switch {
		case f.Began.IsZero():
			text += fmt.Sprintf(" It broke off at %s.", clock(f.At))
		default:
			text += fmt.Sprintf(" It began at %s, and broke off %s later.", clock(f.Began), Took(f.At.Sub(f.Began)))
		}
	}
	if s.Tracking != "" && s.Items == 0 {
		text += fmt.Sprintf(" Its key is %s.", s.Tracking)
	}
	return text + " Look in what the step calls, before you say more:"
}

// String names the step.
func (x StuckStep) String() string { return strings.TrimSpace(x.ID + " " + x.Name) }

// Stuck are the steps that are stuck, or whose undo is.
func Stuck(s *process.Stream) (all []StuckStep) {
	for i := range s.Lines {
		x := &s.Lines[i]
		stuck, why := x.Status == process.Stuck && x.Verb != "plan" && x.Verb != "part", x.Msg
		doubt := stuck && x.Unknown
		for _, u := range x.Undos {
			if u.Status == process.Stuck {
				stuck, doubt, why = true, false, "its undo: "+cmp.Or(u.Msg, "no answer in time")
			}
		}
		if stuck {
			step := StuckStep{ID: x.ID, Name: x.Name, Why: why}
			if doubt {
				step.Doubt = x
			}
			all = append(all, step)
		}
	}
	return all
}

// Takes reports that an instance may take an act as the instance stands. An act that it doesn't know, it may take.
func Takes(s *process.Stream, verb string) bool {
	stuck := Stuck(s)
	switch verb {
	case "signal":
		return !s.Status.Final() && s.Status != process.Undoing
	case "cancel":
		return !s.Status.Final() && s.Status != process.Undoing && s.Status != process.Init && s.Cancel == nil
	case "retry", "skip":
		return len(stuck) > 0
	case "fail":
		return slices.ContainsFunc(stuck, func(x StuckStep) bool { return x.Doubt != nil })
	case "rerun":
		return s.Status.Final() || s.Status == process.Stuck
	case "nudge":
		return s.Status != process.Init
	}
	return true
}

// At names the step of an entry that is stuck.
func At(x process.Entry) string { return strings.TrimSpace(x.Step + " " + x.Name) }
