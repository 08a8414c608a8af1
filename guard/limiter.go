package guard

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync/atomic"

	"github.com/millrace-go/millrace/worker"
)

// Limiter pauses a queue while the breaker is open. Then nothing is received, and messages that wait are handed back.
// When a probe is due, one message is received, and its call is the probe. While it is closed, the worker takes as many
// messages as Rate, Slots and Adaptive leave. It is for queues whose handlers all call the service. Without a Limiter,
// the calls of a queue are refused while the breaker is open, and beyond the limits, and each hands its message back.
//
// Several queues may have the Limiter of one guard: they divide what it lets run. One queue may have those of several
// guards, by worker.Limiters. When the last consumer has left, calls are refused that would need a share of a limit.
//
//	worker.QueueConfig{Limiter: smtp.Limiter}
func (g *Guard) Limiter(ctx context.Context, c worker.Consumer) (worker.Limiter, error) {
	if g.fault != nil {
		return nil, g.fault
	}
	if c.Logger != nil {
		g.log.CompareAndSwap(nil, c.Logger)
	}
	register(g, c.Metrics)
	g.limiters.Store(c.Queue, true)
	if err := g.quota.open(c.Store); err != nil {
		return nil, err
	}
	if store := cmp.Or(g.cfg.Store, c.Store); store != nil {
		g.fleet.Open(ctx, store, true)
	}
	t := &limiter{guard: g, queue: c.Queue, most: c.Concurrency, atMost: c.MaxInHand, others: c.Others, inHand: c.InHand, store: c.Store != nil}
	g.division.join(t)
	return t, nil
}

// warnWithoutLimiter tells of a queue whose messages are fetched only to be handed back, because its worker asks no
// guard.
func warnWithoutLimiter(g *Guard, m message) {
	if m.Handling == nil || m.Queue == "" {
		return
	}
	if _, known := g.limiters.LoadOrStore(m.Queue, true); !known {
		g.logger().LogAttrs(context.Background(), slog.LevelWarn, "messages are fetched although the calls they need can't be made: give their queue this guard's Limiter, or name it in host.Program.Guards",
			slog.String("guard", g.name), slog.String("queue", m.Queue))
	}
}

// limiter is a consumer's view of a guard.
type limiter struct {
	guard  *Guard
	queue  string
	most   int                  // handlers at a time by its settings, which a limit doesn't raise; 0: not known
	atMost int                  // messages in hand, likewise
	others func() worker.Limits // of the queue's other limiters; nil: there are none
	inHand func() int           // that it holds now; nil: not known
	store  bool                 // its consumer has one

	tight atomic.Bool // a limit of calls was in force when it was asked last
	stake             // in the division of the room among queues
}

func (t *limiter) Now() (worker.Limits, <-chan struct{}) {
	limits, changed := t.guard.breaker.limits()
	most, hand := t.inForce()
	if most > 0 {
		limits.Concurrency, limits.MaxInHand = min(limits.Concurrency, most), min(limits.MaxInHand, most)
	}
	d, q := &t.guard.division, t.guard.quota
	if limits.Pause {
		d.part(t, 0)
		d.pause(t)
		return limits, changed
	}
	before := d.before(t, limits.MaxInHand > 0)
	alone := most
	if d.many.Load() { // they divide what may run
		alone = 0
	}
	all, wait := q.room(alone)
	part := d.part(t, min(all, cmp.Or(limits.MaxInHand, all)))
	room := q.limits(part, wait, most, hand)
	if t.inHand != nil && room.MaxInHand > 0 && t.inHand() >= room.MaxInHand {
		q.press(all)
	}
	t.setTight(room != worker.Limits{} && (all < math.MaxInt || d.many.Load()))
	room.Concurrency, room.MaxInHand = least(room.Concurrency, limits.Concurrency), least(room.MaxInHand, limits.MaxInHand)
	if before > 0 && !room.Pause {
		room.MaxInHand += before
		room.Concurrency = min(room.Concurrency+before, cmp.Or(most, math.MaxInt))
	}
	return room, changed
}

// inForce returns how many handlers may run at a time, and how many messages may be in hand, without this limiter.
func (t *limiter) inForce() (most, hand int) {
	most, hand = t.most, t.atMost
	if t.others != nil {
		others := t.others()
		most = cmp.Or(others.Concurrency, most)
		hand = max(most, cmp.Or(others.MaxInHand, hand))
	}
	t.guard.division.setHand(t, hand)
	return most, hand
}

// setTight lets the limiter be told when calls end, or not any more.
func (t *limiter) setTight(tight bool) {
	if t.tight.Swap(tight) == tight {
		return
	}
	if tight {
		t.guard.quota.tight.Add(1)
	} else {
		t.guard.quota.tight.Add(-1)
	}
}

// least returns the least of two limits. Zero is none.
func least(a, b int) int {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// Leave gives this process's part of the limits back when its last consumer leaves.
func (t *limiter) Leave(ctx context.Context) error {
	t.setTight(false)
	t.guard.division.leave(t)
	if !t.store {
		return nil
	}
	return t.guard.quota.leave(ctx, t.guard.fleet.Close)
}
