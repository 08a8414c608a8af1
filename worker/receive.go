package worker

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage/inbox"
)

const (
	waitShort = 100 * time.Millisecond // when messages wait less, hold more
	waitLong  = 500 * time.Millisecond // when messages wait longer, hold fewer
	dearer    = 10                     // factor on both where requests are billed, so that each receive brings more
)

// roomKeeper decides how many messages a consumer may hold. It begins with as many as can run at once. It doubles the
// number while held messages don't wait long. So large batches feed fast handlers, and slow handlers hold no message
// that another worker could run. Guarded by consumer.mu.
type roomKeeper struct {
	least, most int
	short, long time.Duration
	limit       int
	longest     atomic.Int64 // longest wait of a message since the last decision, a time.Duration; used without the mutex
	since       int          // messages that have ended since then
	full        bool         // the last receive brought as many messages as it asked for
	wanted      int          // free places that receive waits for; 0: it doesn't wait
	freed       chan struct{}
}

func newRoomKeeper(least, most int, billed bool) *roomKeeper {
	r := &roomKeeper{least: least, most: most, short: waitShort, long: waitLong, limit: least, freed: make(chan struct{}, 1)}
	if billed {
		r.short, r.long = dearer*waitShort, dearer*waitLong
	}
	return r
}

func (r *roomKeeper) waited(d time.Duration) {
	for old := r.longest.Load(); int64(d) > old && !r.longest.CompareAndSwap(old, int64(d)); old = r.longest.Load() {
	}
}

func (r *roomKeeper) ended(inHand int) {
	r.since++
	if r.wanted > 0 && r.limit-inHand >= r.wanted {
		r.wanted = 0
		select {
		case r.freed <- struct{}{}:
		default:
		}
	}
}

// free returns how many messages to receive now; 0 means that receive must wait for freed.
func (r *roomKeeper) free(inHand int) int {
	longest, decided := time.Duration(r.longest.Load()), true
	switch {
	case longest > r.long:
		r.limit = max(r.least, r.limit/2)
	case r.full && longest < r.short && r.since >= r.limit/2:
		r.limit = min(2*r.limit, r.most)
	default:
		decided = r.since >= 2*r.limit // the handler that held up a message may have ended
	}
	if decided {
		r.longest.CompareAndSwap(int64(longest), 0)
		r.since = 0
	}
	// With room to spare beyond what runs at once, wait for a batch that is worth a request.
	enough := max(1, (r.limit-r.least)/2)
	if n := r.limit - inHand; n >= enough {
		return n
	}
	r.wanted = enough
	return 0
}

// receive receives messages until ctx ends.
func (c *consumer) receive(ctx, base context.Context) {
	in := inbox.Open(c.w.store, c.queue, inbox.Config{Poll: c.cfg.PollInterval[c.queue]})
	defer in.Close()
	// Messages are decoded while the next ones are fetched.
	arrived, sorted := make(chan []*message), make(chan struct{})
	go func() {
		defer close(sorted)
		for ms := range arrived {
			c.keepApart(base, c.dispatch(base, ms))
			c.suspects.received()
		}
	}()
	defer func() {
		close(arrived)
		<-sorted
	}()
	for {
		n := c.waitRoom(ctx)
		batch, due := in.Wait(ctx, max(1, n), c.cfg.Visibility)
		if len(batch.Deliveries) > 0 {
			c.dispatch(base, c.takeInHand(batch)) // no suspects: this is their first delivery
			continue
		}
		switch {
		case due && c.hung.full.Load(): // since it was waited for
			continue
		case !due || c.suspects.receiving(ctx) != nil:
			return
		}
		if c.single.Load() {
			n = 1
		}
		batch, err := in.Look(ctx, n, c.cfg.Visibility)
		if err != nil || len(batch.Deliveries) == 0 { // else they are dispatched first
			c.suspects.received()
		}
		c.looked(ctx, err)
		if ms := c.takeInHand(batch); len(ms) > 0 {
			arrived <- ms
		}
	}
}

// looked logs that receiving begins to fail, and that it works again.
func (c *consumer) looked(ctx context.Context, err error) {
	failing := c.failing.Load() != nil
	switch {
	case err != nil:
		c.stats.receiveErrors.Inc()
		if !failing {
			now := time.Now()
			c.failing.Store(&now)
			c.log.LogAttrs(ctx, slog.LevelError, "can't receive; will go on trying", slog.Any("error", err))
		}
	case failing:
		c.failing.Store(nil)
		c.log.LogAttrs(ctx, slog.LevelInfo, "can receive again")
	}
}

// waitRoom waits for room. It returns how many messages may be received, or 0 when ctx ended.
func (c *consumer) waitRoom(ctx context.Context) int {
	for {
		if c.hung.full.Load() {
			now := time.Now()
			c.full.CompareAndSwap(nil, &now)
			if c.hung.wait(ctx); ctx.Err() != nil {
				return 0
			}
		}
		c.mu.Lock()
		n := c.room.free(len(c.inHand))
		c.mu.Unlock()
		if n > 0 {
			c.full.Store(nil)
			return n
		}
		now := time.Now()
		c.full.CompareAndSwap(nil, &now)
		select {
		case <-c.room.freed:
		case <-ctx.Done():
			return 0
		}
	}
}
