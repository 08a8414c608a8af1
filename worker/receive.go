package worker

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/millrace-go/millrace/storage"
)

const (
	waitShort = 100 * time.Millisecond // messages that wait less: hold more
	waitLong  = 500 * time.Millisecond // messages that wait more: hold fewer
	dearer    = 10                     // so many times longer may messages wait where requests are billed, so that receives bring more
	pollFirst = 20 * time.Millisecond  // the first look of an idle worker without rings
	doubt     = time.Hour              // after something came that nobody had rung for, looks are not rare for so long
)

// roomKeeper decides how many messages a consumer may hold. It begins with what can run at once, and doubles
// while messages that it holds don't wait long, so that fast handlers are fed by large batches and slow ones
// hold nothing that another worker could run. Guarded by consumer.mu.
type roomKeeper struct {
	least, most int
	short, long time.Duration
	limit       int
	longest     atomic.Int64 // longest wait of a message since the last decision, a time.Duration; without the mutex
	since       int          // messages ended since then
	full        bool         // the last receive brought all it asked for
	wanted      int          // free places that receive waits for; 0: it doesn't
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

// free says how many messages to receive now; 0 means that receive shall wait for freed.
func (r *roomKeeper) free(inHand int) int {
	longest, decided := time.Duration(r.longest.Load()), true
	switch {
	case longest > r.long:
		r.limit = max(r.least, r.limit/2)
	case r.full && longest < r.short && r.since >= r.limit/2:
		r.limit = min(2*r.limit, r.most)
	default:
		decided = r.since >= 2*r.limit // what held one of them up may be over
	}
	if decided {
		r.longest.CompareAndSwap(int64(longest), 0)
		r.since = 0
	}
	// With room to spare beyond what runs at once, wait for a batch worth a request.
	enough := max(1, (r.limit-r.least)/2)
	if n := r.limit - inHand; n >= enough {
		return n
	}
	r.wanted = enough
	return 0
}

// receive takes messages in until ctx ends. The calls themselves are under base: a receive that is cut off may
// leave messages hidden.
func (c *consumer) receive(ctx, base context.Context) {
	var ring <-chan struct{}
	if waker, ok := storage.As[storage.Waker](c.w.store); ok {
		r, stop := waker.Wake(c.queue)
		defer stop()
		ring = r
	}
	props := c.w.store.Props()
	longest := cmp.Or(c.cfg.PollInterval[c.queue], props.PollInterval)
	quiet := cmp.Or(c.cfg.PollInterval[c.queue], props.QuietInterval, longest)
	poll := backoff.ExponentialBackOff{InitialInterval: pollFirst, Multiplier: 2, RandomizationFactor: 0.2, MaxInterval: longest, Clock: backoff.SystemClock}
	poll.Reset()
	trouble := backoff.ExponentialBackOff{InitialInterval: 100 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.2, MaxInterval: 10 * time.Second, Clock: backoff.SystemClock}
	trouble.Reset()
	failed := false
	trusted := ring != nil && props.QuietInterval > 0 // what was found last, if anything, had been rung for: then silence means that nothing is there
	rung := trusted                                   // a ring ended the last wait; as good as that: what the first look finds was there before
	var doubted time.Time                             // when something was last found that nobody had rung for
	// Messages are decoded while the next are fetched.
	arrived, sorted := make(chan []*message), make(chan struct{})
	go func() {
		defer close(sorted)
		for ms := range arrived {
			c.keepApart(base, c.sort(base, ms))
			c.suspects.received()
		}
	}()
	defer func() {
		close(arrived)
		<-sorted
	}()
	for {
		n := c.waitRoom(ctx)
		if c.suspects.receiving(ctx) != nil {
			return
		}
		if c.single.Load() {
			n = 1
		}
		began := time.Now()
		call, cancel := context.WithTimeout(base, c.cfg.Visibility)
		ds, err := c.q.Receive(call, n, c.cfg.Visibility)
		cancel()
		if err != nil || len(ds) == 0 { // else when they are sorted
			c.suspects.received()
		}
		if err != nil {
			if !failed {
				now := time.Now()
				c.failing.Store(&now)
				c.log.LogAttrs(ctx, slog.LevelError, "can't receive; will go on trying", slog.Any("error", err))
			}
			failed = true
			c.stats.receiveErrors.Inc()
			_ = wait(ctx, trouble.NextBackOff(), nil)
			continue
		}
		if failed {
			c.log.LogAttrs(ctx, slog.LevelInfo, "can receive again")
			failed = false
			c.failing.Store(nil)
			trouble.Reset()
		}
		full := len(ds) >= min(n, props.MaxReceive)
		ms := c.messages(ds, began)
		if c.hold(ms, full); len(ms) > 0 {
			arrived <- ms
		}
		if len(ds) > 0 {
			poll.Reset()
		}
		switch {
		case full || len(ds) > 0 && ring == nil:
			rung = rung && full // busy: no waiting at all
		case len(ds) > 0:
			if trusted = rung; !rung {
				doubted = time.Now()
			}
			rung = c.await(ctx, base, poll.NextBackOff(), ring)
		case trusted:
			interval := quiet
			if time.Since(doubted) < doubt {
				interval = longest
			}
			// Somewhat before it ends, so that idle workers don't look all at once.
			rung = c.await(ctx, base, interval*time.Duration(80+rand.IntN(20))/100, ring)
		default: // nobody has rung yet, or what was found last came without: look as one does without rings
			rung = c.await(ctx, base, min(poll.NextBackOff(), longest), ring)
		}
	}
}

// await waits as wait does, and takes in meanwhile what is sent by this process, where the store hands that over.
func (c *consumer) await(ctx, base context.Context, d time.Duration, ring <-chan struct{}) (rung bool) {
	awaiter, ok := c.q.(storage.Awaiter)
	if !ok {
		return wait(ctx, d, ring)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		n := c.waitRoom(ctx)
		if n == 0 {
			return false
		}
		ready, take := awaiter.Await(n, c.cfg.Visibility)
		over := true
		select {
		case <-ready:
			over = false
		case <-t.C:
		case <-ring:
			rung = true
		case <-ctx.Done():
		}
		call, cancel := context.WithTimeout(base, c.cfg.Visibility)
		if h := take(call); len(h.Deliveries) > 0 {
			c.takeOver(call, base, h, len(h.Deliveries) >= min(n, c.w.store.Props().MaxReceive))
		}
		cancel()
		if over {
			return rung
		}
	}
}

// takeOver takes in hand what is handed over, if it is before call ends. As many as can be are opened while the store commits them.
func (c *consumer) takeOver(call, base context.Context, h storage.Handed, full bool) {
	ms := c.messages(h.Deliveries, h.Since)
opening:
	for _, m := range ms {
		select {
		case <-h.Over:
			break opening
		default:
			c.open(m)
		}
	}
	select {
	case <-h.Over:
		if h.Committed() {
			c.hold(ms, full)
			c.sort(base, ms) // no suspects: it is their first delivery
		}
	case <-call.Done():
	}
}

// waitRoom returns how many messages may be received, when that is some, or 0 when ctx ended.
func (c *consumer) waitRoom(ctx context.Context) int {
	for {
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

// wait returns after d, at a ring, or when ctx ends. It reports whether it was a ring.
func wait(ctx context.Context, d time.Duration, ring <-chan struct{}) (rung bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ring:
		return true
	case <-ctx.Done():
	}
	return false
}
