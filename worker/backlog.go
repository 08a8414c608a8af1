package worker

import (
	"time"

	"github.com/millrace-go/millrace/internal/handling"
)

// backlog is what waits in hand for a working goroutine: tasks, and the messages of the groups among them.
type backlog struct {
	crew     *crew[task]
	groups   groups
	reserved int // of the tasks that run at a time, for urgent messages
}

// task is what a working goroutine does next: one message, or the messages that wait in a group.
type task struct {
	m   *message
	g   *group
	err error // the message ends by this error, without being handled
}

// newBacklog returns a backlog whose tasks are run by do, at most limit tasks at a time. The reserved ones of these are
// for urgent messages.
func newBacklog(limit, reserved int, do func(t task, spare bool)) *backlog {
	b := &backlog{groups: groups{all: map[handling.Group]*group{}}, reserved: reserved}
	b.crew = newCrew(limit, do)
	if reserved > 0 {
		b.crew.reserve, b.crew.lower = reserved, b.lower
	}
	return b
}

// lower reports that a task may not take a handler of the Reserve.
func (b *backlog) lower(t task) bool {
	if t.g != nil {
		return b.groups.allLower(t.g)
	}
	return t.m.lower
}

// route adds a resolved message to its group, or makes it a task of its own. It returns the group if it is new: the
// caller makes it a task.
func (b *backlog) route(m *message) *group {
	id, grouped := m.delivery.Group()
	if !grouped {
		b.crew.push(task{m: m})
		return nil
	}
	g := b.groups.join(id, m)
	if g == nil && !m.lower && b.reserved > 0 {
		b.crew.review() // the group may have been overtaken
	}
	return g
}

// add makes messages tasks of their own.
func (b *backlog) add(ms []*message) {
	for _, m := range ms {
		b.crew.push(task{m: m})
	}
}

// waitsSince reports that a message has waited since then. The message fits by alone, or by grouped where it is in a
// group.
func (b *backlog) waitsSince(then time.Time, alone, grouped func(*message) bool) bool {
	return b.crew.any(func(t task) bool {
		if t.g != nil {
			return b.groups.waitsSince(t.g, then, grouped)
		}
		return t.m.received.Before(then) && alone(t.m)
	})
}

// inTurn returns the messages of which f is true and that wait to take turns, by their keys.
func (b *backlog) inTurn(f func(*message) bool) map[handling.Group][]*message {
	keys := map[handling.Group][]*message{}
	b.crew.any(func(t task) bool {
		if t.g != nil && t.g.id.TakesTurns() {
			if ms := b.groups.find(t.g, f); len(ms) > 0 {
				keys[t.g.id] = ms
			}
		}
		return false
	})
	return keys
}

// takeOut takes out the messages of which out is true.
func (b *backlog) takeOut(out func(*message) bool) []task {
	return b.crew.takeOut(func(t task) ([]task, bool) {
		switch {
		case t.g != nil:
			ms, stays := b.groups.takeOut(t.g, out)
			return tasksOf(ms), stays
		case out(t.m):
			return []task{t}, false
		}
		return nil, true
	})
}

// tasksOf makes each message a task.
func tasksOf(ms []*message) []task {
	ts := make([]task, len(ms))
	for i, m := range ms {
		ts[i].m = m
	}
	return ts
}
