package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/storage"
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

// lower reports that a task may not take a handler of the Reserve.
func (t task) lower(gs *groups) bool {
	if t.g != nil {
		return gs.allLower(t.g)
	}
	return t.m.lower
}

// route adds a resolved message to its group, or makes it a task of its own. It returns the group if it is new.
func (h *hand) route(m *message) *group {
	id, grouped := m.delivery.Group()
	if !grouped {
		h.crew.push(task{m: m})
		return nil
	}
	g := h.groups.join(id, m)
	if g == nil && !m.lower && h.cfg.Reserve.slots() > 0 {
		h.crew.review() // the group may have been overtaken
	}
	return g
}

// runOne runs the handler of a message that has no group.
func (h *hand) runOne(ctx context.Context, m *message) {
	ctx, ok := m.claim.start(ctx, h.renewer.owned())
	if !ok {
		h.settler.lose(m)
		return
	}
	began := h.started(m)
	outcomes := handling.Handle(ctx, handling.Group{}, []*handling.Delivery{m.delivery}, committing(h.settler, m))
	h.ended(began, outcomes)
	m.claim.own.End(nil)
	h.settler.conclude(ctx, m, outcomes[0])
}

// runGroup folds the waiting messages of a document, or runs those of a key in turn, or hands them back. If more have
// come meanwhile, it makes the group a task again.
func (h *hand) runGroup(ctx context.Context, g *group, idle bool) {
	batch := h.groups.next(g)
	switch {
	case idle:
		each(batch, func(m *message) { h.settler.giveBack(ctx, m) })
	case g.id.TakesTurns():
		h.groups.putBack(g, h.round().takeTurn(ctx, g.id, batch))
	default:
		h.fold(ctx, g.id, batch)
	}
	clear(batch) // g.waiting may grow in the same memory, which would keep the messages' bodies
	if h.groups.more(g) {
		h.crew.push(task{g: g})
	}
}

// round returns an empty round of a key.
func (h *hand) round() *round {
	return &round{
		setup: h.setup, settler: h.settler, owned: h.renewer.owned(), idle: h.idle, started: h.started, ended: h.ended,
		of: map[*handling.Delivery]*message{}, outcomes: map[*message]handling.Outcome{},
	}
}

func (h *hand) fold(ctx context.Context, id handling.Group, batch []*message) {
	ms := make([]*message, 0, len(batch))
	ds := make([]*handling.Delivery, 0, len(batch))
	var began time.Time
	for _, m := range batch {
		if !m.claim.ours(h.renewer.owned()) {
			h.settler.lose(m)
			continue
		}
		began = h.started(m)
		ms, ds = append(ms, m), append(ds, m.delivery)
	}
	if len(ms) == 0 {
		return
	}
	outcomes := handling.Handle(ctx, id, ds, committing(h.settler, ms...))
	h.ended(began, outcomes)
	for i, m := range ms {
		h.settler.conclude(ctx, m, outcomes[i])
	}
}

// committing returns the function that commits the unit of work of messages.
func committing(s *settler, ms ...*message) handling.Commit {
	return func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []handling.Ended, error) {
		return s.commit(ctx, work, ms, ends)
	}
}
