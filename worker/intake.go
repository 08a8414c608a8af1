package worker

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage/inbox"
)

// intake takes messages off one queue while its turns allow that and the hand has room for them. It gives the hand the
// messages, and the limits that the turns set.
type intake struct {
	setup
	hand     *hand
	room     *room
	hung     *hung
	suspects *suspects

	full    atomic.Pointer[time.Time] // since when there is no room to receive; nil: there is room
	failing atomic.Pointer[time.Time] // since when receiving fails; nil: it doesn't

	// These fields belong to the goroutine that takes.
	limits Limits // in force
	pauses pauseLog
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
func (in *intake) run(ctx, base context.Context, turns *board) {
	box := inbox.Open(in.store, in.queue, inbox.Config{Poll: in.cfg.PollInterval})
	defer box.Close()
	in.stats.consuming.Set(1)
	defer in.stats.consuming.Set(0)
	in.pauses.log = in.log
	defer in.pauses.stop()
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
		n, turn := in.admitted(ctx, box, turns)
		if n == 0 {
			return
		}
		batch, due := box.Wait(turn, n, in.cfg.Visibility)
		if len(batch.Deliveries) > 0 {
			in.hand.sort(base, in.hand.take(batch)) // no suspects: this is their first delivery
			continue
		}
		if !due || in.hung.full.Load() || in.suspects.receiving(turn) != nil {
			continue // things have changed since it was admitted
		}
		if in.hand.single.Load() {
			n = 1
		}
		batch, err := box.Look(ctx, n, in.cfg.Visibility)
		if err != nil || len(batch.Deliveries) == 0 { // else they are sorted first
			in.suspects.received()
		}
		in.looked(ctx, err)
		if len(batch.Deliveries) > 0 {
			arrived <- in.hand.take(batch)
		}
	}
}

// admitted waits until the turns allow to take messages and there is room for them. It returns how many may be taken,
// and a context that ends when the limits change. It returns 0 when ctx ended.
func (in *intake) admitted(ctx context.Context, box *inbox.Inbox, turns *board) (n int, turn context.Context) {
	for {
		limits, turn := turns.now()
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
			return n, turn
		}
		select {
		case <-freed:
		case <-in.room.freed:
		case <-turn.Done():
		}
	}
}

// apply puts limits in force.
func (in *intake) apply(ctx context.Context, box *inbox.Inbox, limits Limits) {
	most := cmp.Or(limits.Concurrency, in.cfg.Concurrency)
	in.hung.setMost(most)
	in.hand.setConcurrency(most)
	in.room.setLimits(most, max(most, cmp.Or(limits.MaxInHand, in.cfg.MaxInHand)))
	if limits.PollInterval != in.limits.PollInterval {
		box.SetPoll(cmp.Or(limits.PollInterval, in.cfg.PollInterval))
	}
	in.log.LogAttrs(ctx, slog.LevelDebug, "the limits of a queue change", limits.attrs()...)
	if limits.Pause != in.limits.Pause {
		in.hand.setClosed(limits.Pause)
		in.pauses.set(limits)
		if limits.Pause {
			in.failing.Store(nil) // while nothing is received, nothing is known
			in.stats.consuming.Set(0)
		} else {
			in.stats.consuming.Set(1)
		}
	}
	in.limits = limits
}

// looked logs that receiving begins to fail, and that it works again.
func (in *intake) looked(ctx context.Context, err error) {
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

// logPauseAfter is how long after a change a pauseLog logs what holds then.
const logPauseAfter = time.Second

// A pauseLog logs whether a queue is paused. A pause that is over soon, such as that before a turn's first answer, gets
// no line. However often that changes, the last line is right.
type pauseLog struct {
	log *slog.Logger

	mu     sync.Mutex
	limits Limits
	said   bool        // the last line said that the queue is paused
	timer  *time.Timer // nil: no line is due
}

// set notes the limits in force.
func (p *pauseLog) set(limits Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = limits
	if p.timer == nil {
		p.timer = time.AfterFunc(logPauseAfter, p.write)
	}
}

func (p *pauseLog) write() {
	p.mu.Lock()
	limits, said := p.limits, p.said
	p.said, p.timer = limits.Pause, nil
	p.mu.Unlock()
	if limits.Pause == said {
		return
	}
	event := "queue is consumed"
	if limits.Pause {
		event = "queue is paused: nothing is taken off it"
	}
	p.log.LogAttrs(context.Background(), slog.LevelInfo, event, limits.attrs()...)
}

func (p *pauseLog) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}
