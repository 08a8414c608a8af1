package worker

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/wire"
)

// bodyRoom bounds the claim-checked bodies in hand by their bytes. The size of a body is known once it is fetched;
// until then it counts as the largest. Guarded by hand.mu.
type bodyRoom struct {
	most, used int
	waiting    fifo[*message] // for room
}

// enter makes room for a message's body and returns true. Without room it queues the message and returns false.
func (r *bodyRoom) enter(m *message) bool {
	if m.bodyBytes > 0 {
		return true
	}
	if !r.fits() {
		r.waiting.push(m)
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
	for r.waiting.len() > 0 && r.fits() {
		next = append(next, r.waiting.pop())
		next[len(next)-1].bodyBytes = channel.MaxData
		r.used += channel.MaxData
	}
	return next
}

// leave returns all waiting messages.
func (r *bodyRoom) leave() (all []*message) {
	for r.waiting.len() > 0 {
		all = append(all, r.waiting.pop())
	}
	return all
}

// fetchNext lets messages be fetched.
func (h *hand) fetchNext(ms []*message) {
	for _, m := range ms {
		h.crew.push(task{m: m})
	}
}

// fetch prepares a message that can't be routed as it was received: a suspect, one that may be cancelled, one that a
// worker may have given up before it died, or one whose body is claim-checked.
func (h *hand) fetch(ctx context.Context, m *message) {
	if m.suspect {
		if err := h.suspects.alone(ctx, m, h.all.StuckAfter); err != nil || h.closed.Load() {
			h.settler.giveBack(ctx, m)
			return
		}
	}
	if h.settler.cancelled(ctx, m) {
		return
	}
	if m.envelope.DataRef != "" {
		h.mu.Lock()
		wait := !h.closed.Load() && !h.bodies.enter(m)
		h.mu.Unlock()
		if wait {
			return
		}
	}
	if !m.claim.ours(h.renewer.owned()) { // the body may be gone with the message
		h.settler.lose(m)
		return
	}
	err := h.registry.Channels.Outbox().FetchBody(ctx, &m.envelope)
	there := err == nil
	if m.doomed != nil && errors.Is(err, wire.ErrDataLost) {
		err = nil
	}
	if err == nil && h.opener.mayBeGivenUp(m) {
		err = h.settler.findGivenUp(ctx, m)
	}
	if err == nil {
		err = m.doomed
	}
	if there {
		if m.envelope.DataRef != "" {
			h.mu.Lock()
			h.fetchNext(h.bodies.resize(m, len(m.envelope.Data)))
			h.mu.Unlock()
		}
		if err == nil || h.registry.Handlers.KeyInBody(h.queue, m.envelope.Kind) {
			h.opener.guarded(h.hung, m)
		}
	}
	if err != nil {
		m.bad = err
	}
	if m.bad != nil && !h.opener.toTurn(m) {
		h.settler.conclude(ctx, m, handling.Outcome{Err: m.bad})
		return
	}
	if g := h.route(m); g != nil {
		h.crew.push(task{g: g})
	}
}
