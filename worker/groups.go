package worker

import (
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/handling"
)

const maxFold = 256 // messages in one fold

// groups holds the messages in hand that are folded together, or that take turns.
type groups struct {
	mu  sync.Mutex
	all map[handling.Group]*group // those that wait or run
}

// group is the messages in hand for one document, or for one key that takes turns.
type group struct {
	id      handling.Group
	waiting []*message // under groups.mu
	since   time.Time  // when it came, or ran the last time; under groups.mu
}

// join adds a message to its group. It returns the group if it is new, and nil if the group waits or runs already.
func (gs *groups) join(id handling.Group, m *message) *group {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.all[id]; g != nil {
		g.waiting = append(g.waiting, m)
		return nil
	}
	g := &group{id: id, waiting: []*message{m}, since: m.received}
	gs.all[id] = g
	return g
}

// next takes messages out of a group, for one fold.
func (gs *groups) next(g *group) []*message {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	n := min(len(g.waiting), maxFold)
	batch := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	return batch
}

// putBack puts messages back to the front of their group, which runs.
func (gs *groups) putBack(g *group, ms []*message) {
	if len(ms) == 0 {
		return
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.waiting = append(ms, g.waiting...)
}

// more reports whether messages have come for a group while it ran. If not, the group ends.
func (gs *groups) more(g *group) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if len(g.waiting) > 0 {
		g.since = time.Now()
		return true
	}
	delete(gs.all, g.id)
	return false
}

// allLower reports that no urgent message waits in a group.
func (gs *groups) allLower(g *group) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return !slices.ContainsFunc(g.waiting, func(m *message) bool { return !m.lower })
}

// find returns the messages that wait in a group and of which f is true.
func (gs *groups) find(g *group, f func(*message) bool) (ms []*message) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for _, m := range g.waiting {
		if f(m) {
			ms = append(ms, m)
		}
	}
	return ms
}

// waitsSince reports that a group has waited since then, with a message of which f is true.
func (gs *groups) waitsSince(g *group, then time.Time, f func(*message) bool) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return g.since.Before(then) && slices.ContainsFunc(g.waiting, f)
}

// takeOut takes messages out of a group that doesn't run. Without a message the group ends: left is false.
func (gs *groups) takeOut(g *group, out func(*message) bool) (ms []*message, left bool) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(m *message) bool {
		if out(m) {
			ms = append(ms, m)
			return true
		}
		return false
	})
	if len(g.waiting) == 0 {
		delete(gs.all, g.id)
	}
	return ms, len(g.waiting) > 0
}
