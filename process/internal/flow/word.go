package flow

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// word is the end of an attempt at a step, or the answer to an Ask.
type word struct {
	step
	m     Done
	apply func(state any, result jsontext.Value) (any, error) // takes a success into the state
}

// success takes the success of a step. The first one ends it. One that comes after another end is taken back.
func (w word) success() {
	ev, this := w.ev, digest(w.m.Result, w.m.Effect)
	switch {
	case w.known(this):
	case ev.open() && ev.Digest == "":
		ev.Digest, ev.Began, ev.Worker = this, w.m.Began, w.m.Worker
		w.take(w.m.Result, w.apply)
	case ev.Digest != "" && (w.m.Effect == "" || !w.n.undoable()): // the same one, as far as can be told
		if len(ev.Twice) < maxTwice {
			ev.Twice, w.touched = append(ev.Twice, this), true
		}
	default:
		w.late(this)
	}
}

// ShowAfter is how long an agent works, or a step waits for its next attempt, before the index shows it.
const ShowAfter = 5 * time.Second

// known reports that a success has been taken or counted before.
func (w word) known(this string) bool {
	same := func(u *Undo) bool { return u.Digest == this }
	return this == w.ev.Digest || slices.Contains(w.ev.Twice, this) || slices.ContainsFunc(w.ev.Undos, same)
}

// late takes back a success that came after the end of the step, or after another one.
func (w word) late(this string) {
	w.touched = true
	w.ev.Late++
	if w.ev.Digest == "" {
		w.ev.Digest = this
	}
	if w.n.undoable() {
		undoing{w.step}.start(&Undo{N: len(w.ev.Undos) + 1, State: w.ownState(), Result: w.m.Result, Digest: this, Late: true})
	}
}

// failure takes the failure of an attempt.
func (w word) failure() {
	ev, m := w.ev, w.m
	late := ev.Halt == haltLate // nobody waits for it any more, but now its outcome is known
	switch doubts := ev.Halt == haltDoubt; {
	case !ev.open():
		doubtful{w.step}.note(m)
		return
	case ev.Halt != "" && !late && !doubts, m.Attempt != ev.Attempt, doubts && m.Outcome == Unknown:
		return
	case doubts:
		doubtful{w.step}.resume()
		late = false
	}
	w.touched = true
	ev.Began, ev.Worker = m.Began, m.Worker
	if m.Outcome == Unknown {
		m.Error = outcomeUnknown + m.Error
		doubtful{w.step}.doubt(m.Error)
	}
	ev.Failures = noteFailure(ev.Failures, Failure{N: m.Attempt, At: w.now, Began: m.Began, Msg: shorten(m.Error)})
	delay, again := pace{w.step}.again(m, ev.Attempt-ev.Base)
	switch {
	case m.Outcome == Unknown:
	case late:
		ev.Halt = haltFailed
	case ev.Ending != "":
		ev.Msg = shorten(m.Error)
		w.ended()
	case again:
		ev.Attempt++
		ev.Due = w.now.Add(delay)
		w.moved = w.moved || delay >= ShowAfter
		w.sendBegin(w.beginMessage(), delay)
	default:
		w.fail(m.Error)
	}
}

// pace says when the attempts at a step follow each other.
type pace struct{ step }

// again reports that another attempt follows after so many that have failed, and after which delay. None is made that
// would begin after the step's end.
func (s pace) again(m Done, failed int) (delay time.Duration, ok bool) {
	delay = s.delay(m, failed)
	switch most := s.n.Attempts; {
	case m.Outcome != Failed:
		return 0, false
	case s.stays():
		return delay, true
	default:
		return delay, (most == 0 || failed < most) && before(s.now.Add(delay), s.until())
	}
}

// before reports that a time is before an end; zero is none.
func before(t, end time.Time) bool { return end.IsZero() || t.Before(end) }

// delay returns how long to wait after a failed attempt. It grows, and differs from instance to instance.
func (s pace) delay(m Done, failed int) time.Duration {
	if m.After > 0 {
		return min(m.After, channel.MaxDelay)
	}
	d := min(times(1<<min(max(failed-1, 0), 20), s.n.Backoff), max(maxBackoff, s.n.Backoff), channel.MaxDelay)
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.id + "\x00" + m.Path + "\x00" + strconv.Itoa(failed)))
	return min(d/5*4+time.Duration(h.Sum32()%1000)*(d/2500), channel.MaxDelay)
}

func noteFailure(all []Failure, f Failure) []Failure {
	if len(all) == maxFailures {
		all = append(all[:1:1], all[2:]...) // the first one stays
	}
	return append(all, f)
}

// shorten bounds a text that the document keeps. It may come from the program, as that of a panic does.
func shorten(s string) string { return Text(s, maxText) }

// Text is a text of the program as a message or a document can hold it: UTF-8, and cut between two letters where it has
// more than most bytes.
func Text(s string, most int) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
