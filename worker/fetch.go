package worker

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/wire"
)

// fetcher prepares messages that need requests to the store, or a wait, before they can be routed.
type fetcher struct {
	setup
	settler  *settler
	opener   *opener
	suspects *suspects
	bodies   *bodyRoom
	backlog  *backlog
	starts   *starts
	owned    time.Duration // since the last proof: so long no other worker can have a message
}

// fetch prepares a message that can't be routed as it was received: a suspect, one that may be cancelled, one that a
// worker may have given up before it died, or one whose body is claim-checked.
func (f *fetcher) fetch(ctx context.Context, m *message) {
	if m.suspect {
		if err := f.suspects.alone(ctx, m, f.all.StuckAfter); err != nil || f.starts.closed.Load() {
			f.settler.giveBack(ctx, m)
			return
		}
	}
	if f.settler.cancelled(ctx, m) {
		return
	}
	if m.envelope.DataRef != "" && !f.bodies.enter(m) {
		return
	}
	if !m.claim.ours(f.owned) { // the body may be gone with the message
		f.settler.lose(m)
		return
	}
	err := f.registry.Channels.Outbox().FetchBody(ctx, &m.envelope)
	there := err == nil
	if m.doomed != nil && errors.Is(err, wire.ErrDataLost) {
		err = nil
	}
	if err == nil && f.opener.mayBeGivenUp(m) {
		err = f.settler.findGivenUp(ctx, m)
	}
	if err == nil {
		err = m.doomed
	}
	if there {
		if m.envelope.DataRef != "" {
			f.backlog.add(f.bodies.fetched(m))
		}
		if err == nil || f.registry.Handlers.KeyInBody(f.queue, m.envelope.Kind) {
			f.opener.guarded(f.starts.hung, m)
		}
	}
	if err != nil {
		m.bad = err
	}
	if m.bad != nil && !f.opener.toTurn(m) {
		f.settler.conclude(ctx, m, handling.Outcome{Err: m.bad})
		return
	}
	if g := f.backlog.route(m); g != nil {
		f.backlog.crew.push(task{g: g})
	}
}
