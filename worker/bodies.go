package worker

import (
	"context"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
)

// bodyRoom bounds the claim-checked bodies in hand by their bytes. The size of a body is known once it is fetched;
// until then it counts as the largest. Guarded by consumer.mu.
type bodyRoom struct {
	most, used int
	waiting    []*message // for room
}

// enter makes room for a message's body and returns true. Without room it queues the message and returns false.
func (r *bodyRoom) enter(m *message) bool {
	if m.bodyBytes > 0 {
		return true
	}
	if !r.fits() {
		r.waiting = append(r.waiting, m)
		return false
	}
	r.resize(m, channel.MaxData)
	return true
}

func (r *bodyRoom) fits() bool { return r.used == 0 || r.used+channel.MaxData <= r.most }

// resize changes the room of a message, and returns the waiting messages that now have room.
func (r *bodyRoom) resize(m *message, to int) (next []*message) {
	r.used += to - m.bodyBytes
	m.bodyBytes = to
	for len(r.waiting) > 0 && r.fits() {
		next, r.waiting = append(next, r.waiting[0]), r.waiting[1:]
		next[len(next)-1].bodyBytes = channel.MaxData
		r.used += channel.MaxData
	}
	return next
}

// leave returns all waiting messages.
func (r *bodyRoom) leave() []*message {
	ms := r.waiting
	r.waiting = nil
	return ms
}

// fetchNext lets messages be fetched. They are in hand and have no task, so it doesn't block; see pushTask.
func (c *consumer) fetchNext(ms []*message) {
	for _, m := range ms {
		c.pushTask(task{m: m})
	}
}

// fetch prepares a message that can't be routed as it was received: a suspect, or one whose body is claim-checked.
func (c *consumer) fetch(ctx context.Context, m *message) {
	if m.suspect {
		if err := c.suspects.alone(ctx, m, c.cfg.StuckAfter); err != nil || c.draining.Load() {
			c.giveBack(ctx, m)
			return
		}
	}
	if m.envelope.DataRef != "" {
		c.mu.Lock()
		wait := !c.draining.Load() && !c.bodies.enter(m)
		c.mu.Unlock()
		if wait {
			return
		}
	}
	if !m.ours(c.owned) { // the body may be gone with the message
		c.stats.lost.Inc()
		c.release(m)
		return
	}
	if err := c.w.h.Channels().Outbox().FetchBody(ctx, &m.envelope); err != nil {
		c.conclude(ctx, m, handlers.Outcome{Err: err})
		return
	}
	if m.envelope.DataRef != "" {
		c.mu.Lock()
		c.fetchNext(c.bodies.resize(m, len(m.envelope.Data)))
		c.mu.Unlock()
	}
	handlers.Guard(decoding, 1, func(int) resolved {
		return c.resolve(m)
	}, func(_ int, r resolved) {
		m.delivery, m.bad = r.delivery, r.err
	}, func(_ int, err error) {
		c.countHang(err)
		m.bad = err
	})
	if m.bad != nil {
		c.conclude(ctx, m, handlers.Outcome{Err: m.bad})
		return
	}
	if g := c.route(m); g != nil {
		c.pushTask(task{g: g})
	}
}
