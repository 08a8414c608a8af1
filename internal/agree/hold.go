package agree

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// ProvedUntil returns until when a write proves what its process holds. The write began at start, and the store has
// acknowledged the write.
func ProvedUntil(start time.Time, ttl time.Duration) time.Time { return start.Add(ttl * 5 / 6) }

// DeadFrom returns from when a holder counts as dead whose document or row a process has seen unchanged since a time.
func DeadFrom(since time.Time, ttl time.Duration) time.Time { return since.Add(ttl * 7 / 6) }

// NextFence returns the number of the holder that follows the one with number last (0: there was none). It is the last
// number plus 1. Where a failover may take acknowledged writes back, it is at least the store's time in microseconds:
// the lost holder may still act, so its successor on the other server must not get its number.
func NextFence(store *storage.Store, last int64) int64 {
	if clock := store.Props().Clock; clock != nil {
		return max(last+1, clock.Now().UnixMicro())
	}
	return last + 1
}

// A Hold is what one process has at a time, because its ID stands in a document or a row: a lease, a key's turn, the
// note of a run. A Hold is the context of the work that needs it. A Hold renews itself by a write each third of its
// TTL, and each twelfth while writes fail.
//
// # Why two holds of one thing are never alive at once
//
// A hold is proved until 5/6 of its TTL after the start of its last write that was acknowledged. A write whose outcome
// is unknown proves nothing, even if it turns out later that the write was done. Others take over 7/6 of the holder's
// TTL after they saw the holder's last write. They write under the ETag that they saw, so they take over only if
// nothing was written meanwhile.
//
// The holder started its last acknowledged write before the store did that write, and others saw the write after that:
// start ≤ write ≤ seen. So the proof ended at start + 5/6 TTL, at least a third of the TTL before the takeover at
// seen + 7/6 TTL. Each of the two spans is measured on one machine's monotonic clock. So it doesn't matter what time
// the clocks show. It matters only that no clock runs 7/5 as fast as another.
//
// Each look at the hold compares the clock with the proof, as package internal/right has it. So a process that stood
// still sees the end at its first look, however late the timers are. Between a look and an act a process can stand
// still, and only a fence helps against that.
type Hold struct {
	*right.Right
	ttl   time.Duration
	write func(ctx context.Context) (lost bool, err error)
	over  func(r *right.Right, why error)

	calls chan struct{}         // capacity 1: full during a call of the store
	next  *time.Timer           // renews
	last  atomic.Pointer[error] // of the last write; not guarded by calls, because a call may hang
}

// NewHold holds what a write has given to this process that began at start. The hold ends with ctx, too.
//
// write renews the hold. It says whether another holder's write came first; then the hold is lost. over ends the right
// with a cause, when the hold is lost or is no longer proved. over gets the error of the last write, or nil if no write
// has failed since the last success; it may be called more than once, and before NewHold returns.
func NewHold(ctx context.Context, ttl time.Duration, start time.Time, write func(ctx context.Context) (lost bool, err error), over func(r *right.Right, why error)) *Hold {
	h := &Hold{ttl: ttl, write: write, over: over, calls: make(chan struct{}, 1)}
	h.calls <- struct{}{}
	defer h.leave()
	h.Right = right.New(ctx, ProvedUntil(start, ttl), func(r *right.Right) {
		var why error
		if last := h.last.Load(); last != nil {
			why = *last
		}
		over(r, why)
	})
	h.next = time.AfterFunc(time.Until(start.Add(ttl/3)), h.renew)
	return h
}

func (h *Hold) renew() {
	h.calls <- struct{}{}
	defer h.leave()
	if h.Err() == nil {
		_ = h.Write(h, h.write)
	}
}

// Write makes a write that proves the hold as a renewal does. The caller has entered.
func (h *Hold) Write(ctx context.Context, write func(ctx context.Context) (lost bool, err error)) error {
	start := time.Now()
	lost, err := write(ctx)
	h.last.Store(nil)
	if err != nil {
		h.last.Store(&err)
	}
	switch {
	case h.Err() != nil:
	case err == nil:
		h.Prove(ProvedUntil(start, h.ttl))
		h.next.Reset(time.Until(start.Add(h.ttl / 3)))
	case lost:
		h.over(h.Right, err)
	default:
		h.next.Reset(h.ttl / 12)
	}
	return err
}

// Enter waits until no call of the hold is under way, and keeps others away until leave is called. The context that it
// returns is for the calls until then. It ignores the end of ctx, and ends a third of the TTL after Enter began.
func (h *Hold) Enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	ctx, cancel := storecall.Limit(context.WithoutCancel(ctx), h.ttl/3)
	select {
	case h.calls <- struct{}{}:
		return ctx, func() { h.leave(); cancel() }, nil
	case <-ctx.Done(): // a renewal hangs
		defer cancel()
		return nil, nil, context.Cause(ctx)
	}
}

func (h *Hold) leave() { <-h.calls }

// End ends the hold's context, and its renewal. A renewal may still be under way. End reports that nothing else had
// ended the hold.
func (h *Hold) End(why error) (first bool) {
	h.next.Stop()
	return h.Right.End(why)
}

// Close ends the hold, and waits until no renewal is under way.
func (h *Hold) Close() {
	h.End(nil)
	h.calls <- struct{}{}
	h.leave()
}
