package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

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
	setup
	starts  *starts
	backlog *backlog
	bodies  *bodyRoom
	room    *room
	last    time.Time // look, that found something
	busy    atomic.Bool
	looks   sync.WaitGroup
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
	long := mayWait(u.setup)
	if u.starts.stopped() || now.Sub(u.last) < long/2 || u.busy.Load() || !u.waitsSince(now.Add(-long)) {
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
	return u.bodies.any(func(m *message) bool { return m.received.Before(then) && u.goes(m) }) ||
		u.backlog.waitsSince(then, u.goes, func(m *message) bool { return u.goes(m) || returned(m) })
}

// goes reports that no other message has to run after this one because it came later.
func (u *unstarted) goes(m *message) bool {
	inTurn := u.registry.Handlers.KeyInBody(u.queue, m.envelope.Kind)
	return !inTurn || m.delivery == nil && m.envelope.Attempts > 0 // the others wait for it, or went past it
}

// returned reports that a message was handed back before. Only for such a one the others of a key may wait.
func returned(m *message) bool { return m.envelope.Attempts+m.envelope.HandBacks > 0 }

// handBack hands back what waits.
func (u *unstarted) handBack(ctx context.Context) {
	awaited := u.awaited(ctx)
	goes := func(m *message) bool { return awaited[m] || u.goes(m) }
	u.room.shrink()
	back := append(u.backlog.takeOut(goes), tasksOf(u.bodies.takeOut(goes))...)
	u.backlog.crew.runSpare(drainers, back)
}

// awaited returns the messages that others of their keys wait for. It asks the store, for keys of which a message was
// handed back before.
func (u *unstarted) awaited(ctx context.Context) map[*message]bool {
	keys := u.backlog.inTurn(func(m *message) bool { return !u.goes(m) && returned(m) })
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
