package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/inbox"
)

// intake takes messages off one queue while its limiters allow that and the hand has room for them. It gives the hand
// the messages, and the limits that the limiters set.
type intake struct {
	setup
	hand     *hand
	room     *room
	hung     *hung
	suspects *suspects

	full    atomic.Pointer[time.Time] // since when there is no room to receive; nil: there is room
	failing atomic.Pointer[time.Time] // since when receiving fails; nil: it doesn't

	// These fields belong to the goroutine that takes.
	partly partly
	limits Limits // in force
	capped bool   // the last look brought as many messages that aren't urgent as it asked for, or may have
	pauses *pauseLog
}

// fit reports that the intake can receive: that is, it could within the last StuckAfter.
func (in *intake) fit() bool {
	for _, since := range []*time.Time{in.full.Load(), in.failing.Load()} {
		if since != nil && time.Since(*since) > in.all.StuckAfter {
			return false
		}
	}
	return true
}

// run takes messages until ctx ends. Until base ends, messages that came are opened.
func (in *intake) run(ctx, base context.Context, limiters *board) {
	box := inbox.Open(in.store, in.queue, inbox.Config{Poll: in.cfg.PollInterval})
	defer box.Close()
	in.pauses = newPauseLog(in.log)
	defer in.pauses.stop()
	in.stats.consuming.Set(1)
	defer in.stats.consuming.Set(0)
	// Messages are opened while the next ones are fetched.
	arrived, sorted := make(chan []*message), make(chan struct{})
	go func() {
		defer close(sorted)
		for ms := range arrived {
			in.hand.sort(base, ms)
			in.suspects.received()
		}
	}()
	defer func() {
		close(arrived)
		<-sorted
	}()
	for {
		n, limiter := in.admitted(ctx, box, limiters)
		if n == 0 {
			return
		}
		lower := min(n, in.room.freeLower())
		batch, due := in.wait(limiter, box, n, lower)
		if len(batch.Deliveries) > 0 {
			in.hand.sort(base, in.hand.take(batch)) // no suspects: this is their first delivery
			continue
		}
		if !due || in.hung.full.Load() || in.suspects.receiving(limiter) != nil {
			continue // things have changed since it was admitted
		}
		if in.hand.single.Load() {
			n = 1
		}
		batch, err := in.look(ctx, box, n, lower)
		if err != nil || len(batch.Deliveries) == 0 { // else they are sorted first
			in.suspects.received()
		}
		in.looked(ctx, err)
		if len(batch.Deliveries) > 0 {
			arrived <- in.hand.take(batch)
		}
	}
}

// wait waits until a look is due, or until messages are handed over. A wait for urgent messages alone ends when there
// are places for others.
func (in *intake) wait(limiter context.Context, box *inbox.Inbox, n, lower int) (inbox.Batch, bool) {
	if in.cfg.Reserve.slots() > 0 {
		switch {
		case lower == 0:
			ctx, cancel := context.WithCancel(limiter)
			defer cancel()
			in.room.whenLower(cancel)
			limiter = ctx
		case in.capped:
			box.Hasten() // the last look left some
		}
	}
	return box.Wait(limiter, n, in.cfg.Visibility)
}

// look asks the store for n messages. With a Reserve, at most so many of them aren't urgent.
func (in *intake) look(ctx context.Context, box *inbox.Inbox, n, lower int) (inbox.Batch, error) {
	reserve := in.cfg.Reserve
	if reserve.slots() == 0 {
		return box.Look(ctx, n, in.cfg.Visibility)
	}
	batch, err := box.Look(wire.AtMostBelow(ctx, reserve.below(), lower), n, in.cfg.Visibility)
	in.capped = err == nil && len(batch.Deliveries) >= lower
	batch.Full = batch.Full || in.capped
	return batch, err
}

// admitted waits until the limiters allow to take messages and there is room for them. It returns how many may be
// taken, and a context that ends when the limits change. It returns 0 when ctx ended.
func (in *intake) admitted(ctx context.Context, box *inbox.Inbox, limiters *board) (n int, limiter context.Context) {
	for {
		limits, limiter := limiters.now()
		if ctx.Err() != nil {
			return 0, nil
		}
		if limits != in.limits {
			in.apply(ctx, box, limits)
		}
		freed, n := in.hung.wait(), 0
		if freed == nil {
			n = in.room.free()
		}
		switch {
		case n > 0:
			in.full.Store(nil)
		case in.full.Load() == nil:
			now := time.Now()
			in.full.Store(&now)
		}
		if n > 0 && !limits.Pause {
			return n, limiter
		}
		select {
		case <-freed:
		case <-in.room.freed:
		case <-limiter.Done():
		}
	}
}

// apply puts limits in force.
func (in *intake) apply(ctx context.Context, box *inbox.Inbox, limits Limits) {
	meant := in.complete(limits)
	in.hung.setMost(max(meant.Concurrency, in.cfg.Concurrency)) // else one that hangs would stop a queue whose limit is low for a while
	in.hand.setConcurrency(meant.Concurrency)
	in.room.setLimits(meant.Concurrency, meant.MaxInHand)
	if limits.PollInterval != in.limits.PollInterval {
		box.SetPoll(meant.PollInterval)
	}
	was := in.limits.Pause
	in.limits = limits
	in.log.LogAttrs(ctx, slog.LevelDebug, "the limits of a queue change", meant.attrs()...)
	in.pauses.set(meant)
	if limits.Pause == was {
		return
	}
	in.hand.setClosed(limits.Pause)
	if limits.Pause {
		in.failing.Store(nil) // while nothing is received, nothing is known
		in.stats.consuming.Set(0)
	} else {
		in.stats.consuming.Set(1)
	}
}

// complete replaces zeros by the settings that they leave in force.
func (in *intake) complete(limits Limits) Limits {
	limits.Concurrency = cmp.Or(limits.Concurrency, in.cfg.Concurrency)
	limits.MaxInHand = max(limits.Concurrency, cmp.Or(limits.MaxInHand, in.cfg.MaxInHand))
	limits.PollInterval = cmp.Or(limits.PollInterval, in.cfg.PollInterval, in.store.Props().PollInterval)
	return limits
}

// looked logs that receiving begins to fail, and that it works again.
func (in *intake) looked(ctx context.Context, err error) {
	if errors.Is(err, storage.ErrPartial) {
		in.stats.receiveErrors.Inc()
		in.partly.fails(ctx, in.log, err)
		err = nil // the store answers
	} else if err == nil {
		in.partly.works(ctx, in.log)
	}
	failing := in.failing.Load() != nil
	switch {
	case err != nil:
		in.stats.receiveErrors.Inc()
		if !failing {
			now := time.Now()
			in.failing.Store(&now)
			in.log.LogAttrs(ctx, slog.LevelError, "can't receive; will go on trying", slog.Any("error", err))
		}
	case failing:
		in.failing.Store(nil)
		in.log.LogAttrs(ctx, slog.LevelInfo, "can receive again")
	}
}
