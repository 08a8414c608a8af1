package worker

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
)

const atATime = 32 // bounds the calls that run together for several messages

// ownedFor is how long a message of a visibility is owned after the start of the call that gave it.
func ownedFor(visibility time.Duration) time.Duration { return visibility - visibility/6 }

// renewer keeps messages in hand invisible to others. It ends the contexts of those that it can't keep, and reports
// handlers that run long.
type renewer struct {
	setup
}

// every is how often the messages in hand are looked through.
func (r *renewer) every() time.Duration { return max(r.cfg.Visibility/12, 10*time.Millisecond) }

// old reports that a message may be due for renewal. Ownership begins no earlier than the receiving call, so the
// message's lock is not needed.
func (r *renewer) old(m *message, now time.Time) bool { return now.Sub(m.asked) >= r.cfg.Visibility/6 }

// renew renews the messages that are due.
func (r *renewer) renew(ctx context.Context, ms []*message, now time.Time) {
	each(ms, func(m *message) {
		r.reportStuck(ctx, m, now)
		lost, err := m.claim.renew(ctx, r.q, r.cfg.Visibility, r.cfg.Visibility/3, ownedFor(r.cfg.Visibility))
		switch {
		case lost:
			r.stats.lost.Inc()
			r.log.LogAttrs(ctx, slog.LevelWarn, "a message in hand may be lost to others: it could not be renewed in time", m.id(), slog.Any("error", err))
		case err != nil && ctx.Err() == nil:
			r.log.LogAttrs(ctx, slog.LevelWarn, "can't renew a message", m.id(), slog.Any("error", err))
		}
	})
}

// each calls f for each message, at most atATime at once, and returns when all calls have returned.
func each(ms []*message, f func(*message)) {
	var calls errgroup.Group
	calls.SetLimit(atATime)
	for _, m := range ms {
		calls.Go(func() error { f(m); return nil })
	}
	_ = calls.Wait() // the functions return no errors
}

func (r *renewer) reportStuck(ctx context.Context, m *message, now time.Time) {
	began := m.began.Load()
	if began == nil || now.Sub(*began) < r.all.StuckAfter || now.Sub(m.reported) < r.all.StuckAfter {
		return
	}
	m.reported = now
	r.stats.stuck.Inc()
	r.log.LogAttrs(ctx, slog.LevelWarn, "handler runs longer than StuckAfter", slog.String("id", m.envelope.ID), slog.String("kind", string(m.envelope.Kind)),
		slog.Duration("running", now.Sub(*began)))
}
