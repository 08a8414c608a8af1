package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/handling"
	"golang.org/x/sync/errgroup"
)

// unstartedMost is how long a message waits in hand for its handler. Where the others of a key have little patience, it
// is a part of that.
const unstartedMost = time.Minute

// unstarted hands back what waits in hand for too long: handlers are slower than they were when so many messages were
// taken. Another worker may run them now, and the others of a key don't lose patience with one that is here. It costs
// no attempt. A rewrite costs less than to renew a message for another minute, and the room is small afterwards, so
// that the messages don't come back to wait here.
//
// All that waits goes, in its order. One thing stays: by OneAtATime, the messages of a key run in the order in which
// one worker takes them. So only the one goes that the others of its key wait for.
type unstarted struct {
	hand  *hand
	last  time.Time // look, that found something
	busy  atomic.Bool
	looks sync.WaitGroup
}

// mayWait returns how long a message of a queue waits in hand for its handler.
func mayWait(h setup) time.Duration {
	if most := h.registry.Turns.MayWait(h.queue); most > 0 {
		return min(unstartedMost, most)
	}
	return unstartedMost
}

// look hands back what waits, beside the caller, if something has waited for too long.
func (u *unstarted) look(ctx context.Context, now time.Time) {
	long := mayWait(u.hand.setup)
	if u.hand.idle() || now.Sub(u.last) < long/2 || u.busy.Load() || !u.waitsSince(now.Add(-long)) {
		return
	}
	u.last = now
	u.busy.Store(true)
	u.looks.Go(func() {
		defer u.busy.Store(false)
		u.handBack(ctx)
	})
}

// waitsSince reports that a message that may go has waited since then.
func (u *unstarted) waitsSince(then time.Time) bool {
	h := u.hand
	h.mu.Lock()
	waits := slices.ContainsFunc(h.bodies.waiting.all(), func(m *message) bool { return m.received.Before(then) && u.goes(m) })
	h.mu.Unlock()
	return waits || h.crew.any(func(t task) bool {
		if t.g != nil {
			return h.groups.waitsSince(t.g, then, func(m *message) bool { return u.goes(m) || returned(m) })
		}
		return t.m.received.Before(then) && u.goes(t.m)
	})
}

// goes reports that no other message has to run after this one because it came later.
func (u *unstarted) goes(m *message) bool {
	h := u.hand
	inTurn := h.registry.Handlers.KeyInBody(h.queue, m.envelope.Kind)
	return !inTurn || m.delivery == nil && m.envelope.Attempts > 0 // the others wait for it, or went past it
}

// returned reports that a message was handed back before. Only for such a one the others of a key may wait.
func returned(m *message) bool { return m.envelope.Attempts+m.envelope.HandBacks > 0 }

// handBack hands back what waits.
func (u *unstarted) handBack(ctx context.Context) {
	h, awaited := u.hand, u.awaited(ctx)
	goes := func(m *message) bool { return awaited[m] || u.goes(m) }
	h.room.shrink()
	back := h.crew.takeOut(func(t task) (out []task, stays bool) {
		if t.g == nil && !goes(t.m) {
			return nil, true
		}
		if t.g == nil {
			return []task{t}, false
		}
		ms, stays := h.groups.takeOut(t.g, goes)
		return tasksOf(ms), stays
	})
	h.mu.Lock()
	back = append(back, tasksOf(h.bodies.waiting.takeOut(goes))...)
	h.mu.Unlock()
	h.crew.runSpare(drainers, back)
}

func tasksOf(ms []*message) []task {
	ts := make([]task, len(ms))
	for i, m := range ms {
		ts[i].m = m
	}
	return ts
}

// awaited returns the messages that others of their keys wait for. It asks the store, for keys of which a message was
// handed back before.
func (u *unstarted) awaited(ctx context.Context) map[*message]bool {
	h := u.hand
	keys := map[handling.Group][]*message{}
	h.crew.any(func(t task) bool {
		if t.g != nil && t.g.id.TakesTurns() {
			if ms := h.groups.find(t.g, func(m *message) bool { return !u.goes(m) && returned(m) }); len(ms) > 0 {
				keys[t.g.id] = ms
			}
		}
		return false
	})
	var mu sync.Mutex
	var calls errgroup.Group
	calls.SetLimit(atATime)
	awaited := map[*message]bool{}
	for id, ms := range keys {
		calls.Go(func() error {
			first := id.Awaited(ctx)
			mu.Lock()
			defer mu.Unlock()
			for _, m := range ms {
				awaited[m] = first(m.envelope.ID)
			}
			return nil
		})
	}
	_ = calls.Wait() // the functions return no errors
	return awaited
}
