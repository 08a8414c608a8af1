package worker

import (
	"context"
	"log/slog"
	"slices"

	"github.com/millrace-go/millrace/channel"
)

// consumer consumes one queue. Its rooms know one another in one direction:
//
//	limiters -> intake -> hand -> settler
//
// See the package comment.
type consumer struct {
	setup
	intake   *intake
	hand     *hand
	limiters *board
}

// newConsumer returns a consumer. Handlers run under a context that is derived from base.
func newConsumer(base context.Context, with setup, h *hung, s *suspects) *consumer {
	cfg := with.cfg
	r := newRoom(cfg.Concurrency, cfg.MaxInHand, with.store.Props().Billed)
	if _, ok := with.registry.Channels.Routes().Lanes()[with.queue]; ok {
		r.hurry()
	}
	r.reserve = cfg.Reserve.slots()
	h.setMost(cfg.Concurrency)
	c := &consumer{setup: with, hand: newHand(base, with, r, h, s)}
	c.intake = &intake{setup: with, hand: c.hand, room: r, hung: h, suspects: s}
	return c
}

// openLimiters opens the limiters of the configuration.
func (c *consumer) openLimiters(ctx context.Context) (err error) {
	var open []OpenLimiter
	if c.cfg.Limiter != nil {
		open = append(open, c.cfg.Limiter)
	}
	var kinds []channel.Kind
	for _, h := range c.registry.Handlers.Of(c.queue) {
		kinds = append(kinds, h.Kind())
	}
	slices.Sort(kinds)
	c.limiters, err = openBoard(ctx, Consumer{
		Store: c.store, Queue: c.queue, Worker: c.all.Name, Kinds: kinds, Visibility: c.cfg.Visibility, Logger: c.log, Metrics: c.all.Metrics,
		Concurrency: c.cfg.Concurrency, MaxInHand: c.cfg.MaxInHand, Fit: c.intake.fit,
		InHand: func() int { return int(c.stats.inHand.Load()) },
	}, open...)
	return err
}

// run consumes until ctx ends, and then stops in order. Outcomes can be recorded until base ends.
func (c *consumer) run(ctx, base context.Context) error {
	watching, stop := context.WithCancel(base)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.hand.watch(watching)
	}()
	c.intake.run(ctx, base, c.limiters)
	left := make(chan struct{})
	go func() {
		defer close(left)
		c.leave(ctx)
	}()
	err := c.hand.drain()
	stop()
	if err == nil { // else the store may hang, too
		<-watched
	}
	<-left
	return err
}

// leave tells the limiters that the consumer takes no more messages.
func (c *consumer) leave(ctx context.Context) {
	ctx, cancel := leaveContext(ctx)
	defer cancel()
	if err := c.limiters.Leave(ctx); err != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "the limiter of a queue could not be left in order", slog.Any("error", err))
	}
}
