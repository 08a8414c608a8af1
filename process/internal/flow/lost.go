package flow

import (
	"fmt"
	"slices"
	"time"
)

// lost takes the news that a message is in the poison queue. The step that waits for it is stuck, until the message is
// sent back from there or somebody acts on the step.
type lost struct{ fold *fold }

// byAlarm stands for an alarm among the words that a step waits for.
const byAlarm = "alarm"

// wordOf tells the words apart that a step may wait for.
func wordOf(m Done) string {
	switch {
	case m.Sort != "":
		return string(m.Sort)
	case m.Undo > 0 && m.Item != nil:
		return fmt.Sprintf("undo %d of item %d", m.Undo, *m.Item)
	case m.Undo > 0:
		return fmt.Sprintf("undo %d", m.Undo)
	case m.List:
		return "list"
	case m.Item != nil:
		return fmt.Sprintf("item %d", *m.Item)
	}
	return "end"
}

// take makes the step stuck that waits for a word.
func (l lost) take(m Done) {
	s, ok := l.fold.step(l.waitsFor(m))
	if !ok || slices.Contains(s.ev.Lost, wordOf(m)) {
		return
	}
	ev, word := s.ev, wordOf(m)
	if !m.At.IsZero() {
		word = byAlarm
	}
	if m.Undo > 0 {
		for _, u := range ev.Undos {
			if u.Status == InProcess && u.N == m.Undo && sameItem(u.Item, m.Item) && u.Attempt == max(m.Attempt, 1) {
				ev.Lost = append(ev.Lost, word)
				undoing{s}.stick(u, m.Error)
			}
		}
		return
	}
	l.fold.touched, l.fold.moved = true, true
	ev.Lost = append(ev.Lost, word)
	ev.Status, ev.Halt, ev.Msg = Stuck, haltLost, shorten(m.Error)
	if word != byAlarm { // that will end the step when it is sent back
		ev.Timeout = time.Time{}
	}
}

// waitsFor returns the step that waits for a word, or nil.
func (l lost) waitsFor(m Done) *Event {
	d := l.fold.doc
	ev := d.findRun(m.Path, m.Run)
	switch {
	case !m.At.IsZero():
		return l.firstLate(m.At)
	case m.Undo > 0:
		return ev
	case m.Sort != "" && ev == nil:
		i := slices.IndexFunc(d.Events, func(ev *Event) bool {
			n := l.fold.plan.Node(ev.ID)
			return n != nil && n.Sort == m.Sort && ev.Verb == Wait && ev.Status == InProcess
		})
		if i >= 0 {
			return d.Events[i]
		}
		return nil
	case ev == nil || !ev.open() || ev.Halt != "" && ev.Halt != haltLost:
		return nil
	}
	waits := m.Attempt == ev.Attempt
	switch x := ev.Fan; {
	case m.Sort != "":
		waits = true
	case m.List:
		waits = waits && x != nil && x.Asked
	case m.Item != nil && x != nil:
		waits = !Bit(x.Ended, *m.Item) && (m.Attempt == 0 || x.Tries[*m.Item]+1 == m.Attempt)
	}
	if !waits {
		return nil
	}
	return ev
}

// firstLate returns the step whose time is over first, or nil.
func (l lost) firstLate(at time.Time) (first *Event) {
	for _, ev := range l.fold.doc.Events {
		due := ev.Status == InProcess && !ev.Timeout.IsZero() && !ev.Timeout.After(at)
		if due && (first == nil || ev.Timeout.Before(first.Timeout)) {
			first = ev
		}
	}
	if first != nil {
		l.fold.doc.Alarm = time.Time{}
	}
	return first
}

// found lets a step go on when a word that was lost has come after all, and no other one is.
func (l lost) found(s step, word string, undo *Undo) {
	ev := s.ev
	at := slices.Index(ev.Lost, word)
	if at < 0 {
		return
	}
	l.fold.touched, l.fold.moved = true, true
	if ev.Lost = slices.Delete(ev.Lost, at, at+1); len(ev.Lost) == 0 {
		ev.Lost = nil
	}
	if undo != nil && undo.Status == Stuck {
		undo.Status, undo.Timeout = InProcess, l.fold.now.Add(UndoWithin)
	}
	if ev.Halt != haltLost || ev.Lost != nil {
		return
	}
	ev.Status, ev.Halt = InProcess, ""
	if ev.Ending == "" && word != byAlarm {
		ev.Msg, ev.Timeout = "", s.n.deadline(l.fold.now)
	}
}

// foundWord is found for the word of an agent, an undo or a part.
func (l lost) foundWord(s step, m Done) {
	if s.ev.Lost == nil {
		return
	}
	var undo *Undo
	for _, u := range s.ev.Undos {
		if u.N == m.Undo && sameItem(u.Item, m.Item) {
			undo = u
		}
	}
	l.found(s, wordOf(m), undo)
}

// foundAlarm is found for an alarm.
func (l lost) foundAlarm(at time.Time) {
	for _, ev := range l.fold.doc.Events {
		if s, ok := l.fold.step(ev); ok && slices.Contains(ev.Lost, byAlarm) && !ev.Timeout.After(at) {
			l.found(s, byAlarm, nil)
		}
	}
}
