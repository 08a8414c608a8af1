package worker

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
)

const atATime = 32 // bounds the calls that run together for several messages

// renew keeps the messages in hand invisible to others. It ends the contexts of those it can't keep, and reports
// handlers that run long.
func (c *consumer) renew(ctx context.Context) {
	defer c.renewals.Stop()
	for {
		select {
		case <-c.renewals.C:
			c.renewDue(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// renewEvery is how often the worker looks through the messages in hand.
func renewEvery(visibility time.Duration) time.Duration {
	return max(visibility/12, 10*time.Millisecond)
}

// renewDue renews the messages that are due.
func (c *consumer) renewDue(ctx context.Context) {
	now := time.Now()
	var due []*message
	c.mu.Lock()
	for m := range c.inHand {
		// Ownership begins no earlier than the receiving call, so no message's turn is needed here.
		if now.Sub(m.asked) >= c.cfg.Visibility/6 {
			due = append(due, m)
		}
	}
	c.mu.Unlock()
	each(due, func(m *message) {
		c.reportStuck(ctx, m, now)
		lost, err := m.renew(ctx, c.q, c.cfg.Visibility, c.cfg.Visibility/3, c.owned)
		switch {
		case lost:
			c.stats.lost.Inc()
			c.log.LogAttrs(ctx, slog.LevelWarn, "a message in hand may be lost to others: it could not be renewed in time", m.id(), slog.Any("error", err))
		case err != nil && ctx.Err() == nil:
			c.log.LogAttrs(ctx, slog.LevelWarn, "can't renew a message", m.id(), slog.Any("error", err))
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

func (c *consumer) reportStuck(ctx context.Context, m *message, now time.Time) {
	began := m.began.Load()
	if began == nil || now.Sub(*began) < c.cfg.StuckAfter || now.Sub(m.reported) < c.cfg.StuckAfter {
		return
	}
	m.reported = now
	c.stats.stuck.Inc()
	c.log.LogAttrs(ctx, slog.LevelWarn, "a handler runs long", slog.String("id", m.envelope.ID), slog.String("kind", string(m.envelope.Kind)),
		slog.Duration("running", now.Sub(*began)))
}
