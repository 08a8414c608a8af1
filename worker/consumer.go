package worker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/inbox"
)

const (
	maxFold     = 256              // messages in one fold
	drainers    = 8                // goroutines that hand back waiting messages
	stopGrace   = 5 * time.Second  // for handlers that have been told to stop
	outcomeTime = 10 * time.Second // to record how a delivery ended
)

// consumer consumes one queue.
//
//	receive -> takeInHand -> dispatch -> ready -> work -> conclude -> finish (deletes in batches)
//	                            \-> groups -^                   \-> settle (rewrite, poison)
//
// Concurrency goroutines work. renew watches all messages in hand. A message that can't be routed yet is a task for
// fetch first.
type consumer struct {
	w     *Worker
	cfg   *Config
	queue string
	q     *storage.Queue
	log   *slog.Logger
	stats *queueMetrics
	owned time.Duration // how long a message is owned after the start of the call that gave it

	hung      *hung       // shared by all consumers of the queue
	suspects  *suspects   // shared by all consumers of the worker
	suspectAt int         // so many silent deliveries make a message a suspect
	single    atomic.Bool // there were suspects among the last messages: receive one at a time

	ready    chan task
	over     chan struct{} // closed when there will be no more tasks
	finished chan *message
	renewals *time.Ticker // runs while something is in hand
	draining atomic.Bool
	full     atomic.Pointer[time.Time] // since when there is no room to receive; nil: there is room
	failing  atomic.Pointer[time.Time] // since when receiving fails; nil: it doesn't
	trouble  trouble                   // with the store, while messages are handled

	mu     sync.Mutex
	inHand map[*message]struct{}
	groups map[handlers.Group]*group
	room   *roomKeeper
	bodies bodyRoom
	empty  chan struct{} // closed when nothing is in hand; made by drain, which waits for that
}

// task is what a working goroutine does next: one message, or the messages that wait in a group.
type task struct {
	m   *message
	g   *group
	err error // the message ends by this error, without being handled
}

// group is the messages in hand for one document. It is in consumer.groups while it waits or runs.
type group struct {
	id      handlers.Group
	waiting []*message
}

func newConsumer(w *Worker, queue string, s *suspects) *consumer {
	cfg := &w.cfg
	c := &consumer{
		w: w, cfg: cfg, queue: queue, q: w.store.Queue(queue),
		log: cfg.Logger.With("queue", queue), stats: w.metrics.queue(queue),
		owned:     cfg.Visibility - cfg.Visibility/6,
		hung:      w.hung[queue],
		suspects:  s,
		suspectAt: max(1, min(suspectAfter, cfg.MaxDeliveries-1)),
		ready:     make(chan task, cfg.MaxInHand),
		over:      make(chan struct{}),
		finished:  make(chan *message, cfg.MaxInHand),
		renewals:  time.NewTicker(renewEvery(cfg.Visibility)),
		inHand:    map[*message]struct{}{},
		groups:    map[handlers.Group]*group{},
		room:      newRoomKeeper(cfg.Concurrency, cfg.MaxInHand, w.store.Props().Billed),
		bodies:    bodyRoom{most: cfg.MaxBodies},
	}
	c.renewals.Stop()
	return c
}

// run receives until ctx ends. The handlers that run then have no time limit before stopping ends too. Handlers run
// under a context derived from base.
func (c *consumer) run(ctx, stopping, base context.Context) error {
	handling, cancel := context.WithCancelCause(base)
	defer cancel(nil)
	watching, stopWatching := context.WithCancel(base)

	var workers, helpers sync.WaitGroup
	for range c.cfg.Concurrency {
		workers.Go(func() { c.work(handling) })
	}
	helpers.Go(func() { c.finish(base) })
	helpers.Go(func() { c.renew(watching) })

	c.stats.consuming.Inc()
	c.receive(ctx, base)
	c.stats.consuming.Dec()
	c.mu.Lock()
	c.draining.Store(true)
	c.fetchNext(c.bodies.leave())
	c.mu.Unlock()
	for range drainers { // hand back waiting messages, however busy the others are
		workers.Go(func() { c.work(handling) })
	}
	err := c.drain(stopping, cancel)
	close(c.over)
	stopWatching()
	ended := make(chan struct{})
	go func() {
		workers.Wait()
		close(c.finished)
		helpers.Wait()
		close(ended)
	}()
	if err == nil { // else a handler that hangs may never end
		<-ended
	}
	return err
}

// drain waits until nothing is in hand, for DrainTimeout from the end of ctx.
func (c *consumer) drain(ctx context.Context, cancel context.CancelCauseFunc) error {
	c.mu.Lock()
	c.empty = make(chan struct{})
	if len(c.inHand) == 0 {
		close(c.empty)
		c.empty = nil
	}
	empty := c.empty
	c.mu.Unlock()
	if empty == nil {
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
	}
	timer := time.NewTimer(c.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-empty:
		return nil
	case <-timer.C:
	}
	cancel(ErrDraining)
	timer.Reset(stopGrace)
	select {
	case <-empty:
		return nil
	case <-timer.C:
	}
	return c.abandon()
}

// abandon hands back the messages of handlers that would not stop, as far as the store answers in time. The others come
// back when their visibility ends. The handlers run on, and their results don't count.
func (c *consumer) abandon() error {
	c.mu.Lock()
	stuck := slices.Collect(maps.Keys(c.inHand))
	c.mu.Unlock()
	stuck = slices.DeleteFunc(stuck, func(m *message) bool { return !m.end() })
	if len(stuck) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), outcomeTime)
	defer cancel()
	each(stuck, func(m *message) {
		if ctx.Err() == nil {
			c.handBack(ctx, m, 0, nil)
		}
	})
	return fmt.Errorf("worker: queue %s: %d handler(s) did not stop in %v; their messages were handed back as far as the store answered",
		c.queue, len(stuck), c.cfg.DrainTimeout+stopGrace)
}

// stuck reports that the consumer could not receive for longer than StuckAfter.
func (c *consumer) stuck() bool {
	for _, since := range []*time.Time{c.full.Load(), c.failing.Load()} {
		if since != nil && time.Since(*since) > c.cfg.StuckAfter {
			return true
		}
	}
	return false
}

// takeInHand takes received messages in hand.
func (c *consumer) takeInHand(b inbox.Batch) []*message {
	now := time.Now()
	ms := make([]*message, len(b.Deliveries))
	for i, d := range b.Deliveries {
		ms[i] = &message{queue: c.queue, body: d.Body, deliveries: d.Deliveries, sentAt: d.SentAt, asked: b.Since, received: now, turn: make(turn, 1), receipt: d.Receipt, owned: b.Since}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room.full = b.Full
	if len(c.inHand) == 0 && len(ms) > 0 {
		c.renewals.Reset(renewEvery(c.cfg.Visibility))
	}
	for _, m := range ms {
		c.inHand[m] = struct{}{}
	}
	return ms
}

// dispatch decodes messages that came together and makes each a task or adds it to its group; it returns the suspects
// among them. New groups become tasks only when all the messages are in. When the user's code panics or hangs while a
// message is decoded and resolved, that message alone fails.
func (c *consumer) dispatch(ctx context.Context, ms []*message) (suspects []*message) {
	var begun []*group
	next := func(m *message) {
		c.traceMessage(ctx, "message taken", m)
		switch {
		case m.bad != nil:
			c.pushTask(task{m: m, err: m.bad})
		case m.silentDeliveries >= c.suspectAt:
			suspects = append(suspects, m)
		case m.envelope.DataRef != "":
			c.pushTask(task{m: m}) // a working goroutine fetches it
		default:
			if g := c.route(m); g != nil {
				begun = append(begun, g)
			}
		}
	}
	var open []*message
	for _, m := range ms { // all are decoded before any may hang, because those behind a hang are handed back
		m.bad = c.decode(m)
		m.opened.Store(true)
		if m.bad != nil || m.silentDeliveries >= c.suspectAt || m.envelope.DataRef != "" {
			next(m)
			continue
		}
		open = append(open, m)
	}
	handlers.Guard(decoding, len(open), func(i int) resolved {
		return c.resolve(open[i])
	}, func(i int, r resolved) {
		open[i].delivery, open[i].bad = r.delivery, r.err
		next(open[i])
	}, func(i int, err error) {
		c.countHang(err)
		open[i].bad = err
		next(open[i])
	})
	for _, g := range begun {
		c.pushTask(task{g: g})
	}
	return suspects
}

// resolved is what the user's code makes of a message before it is handled.
type resolved struct {
	delivery *handlers.Delivery
	err      error
}

const decoding = "the code that decodes the message or finds its key"

func (c *consumer) decode(m *message) (err error) {
	if m.envelope, err = channel.Decode(m.body); err == nil {
		err = m.envelope.CheckDataRef(c.queue)
	}
	if err != nil {
		return handlers.Poison(handlers.ReasonUndecodable, err)
	}
	m.discardForgedHistory()
	m.silentDeliveries = m.deliveries - 1 - m.envelope.Attempts - m.envelope.HandBacks
	if m.silentDeliveries >= c.cfg.MaxDeliveries {
		return handlers.Poison(handlers.ReasonDeliveries,
			fmt.Errorf("delivered %d times and not heard of again: does it kill its worker? last error: %s", m.silentDeliveries, m.envelope.LastError))
	}
	return nil
}

// resolve finds the handler of a message that has its data. It calls the user's code, and changes nothing.
func (c *consumer) resolve(m *message) resolved {
	d, err := c.w.h.Resolve(c.queue, &m.envelope)
	return resolved{d, err}
}

// route adds a resolved message to its group, or makes it a task of its own. It returns the group if it is new.
func (c *consumer) route(m *message) *group {
	if id, grouped := m.delivery.Group(); grouped {
		return c.join(id, m)
	}
	c.pushTask(task{m: m})
	return nil
}

// join adds a message to its group. It returns the group if it is new, and nil if the group waits or runs already.
func (c *consumer) join(id handlers.Group, m *message) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[id]
	fresh := g == nil
	if fresh {
		g = &group{id: id}
		c.groups[id] = g
	}
	g.waiting = append(g.waiting, m)
	if !fresh {
		return nil
	}
	return g
}

// pushTask never blocks: there are no more tasks than messages in hand.
func (c *consumer) pushTask(t task) { c.ready <- t }

func (c *consumer) work(ctx context.Context) {
	for {
		var t task
		select {
		case t = <-c.ready:
		case <-c.over:
			return
		}
		switch {
		case t.g != nil:
			c.runGroup(ctx, t.g)
		case t.err != nil:
			c.conclude(ctx, t.m, handlers.Outcome{Err: t.err})
		case c.idle():
			c.giveBack(ctx, t.m)
		case t.m.delivery == nil:
			c.fetch(ctx, t.m)
		default:
			c.runOne(ctx, t.m)
		}
	}
}

// idle reports that no more handlers are started, because the worker stops or because too many hang.
func (c *consumer) idle() bool { return c.draining.Load() || c.hung.full.Load() }

func (c *consumer) runOne(ctx context.Context, m *message) {
	ctx, ok := m.start(ctx, c.owned)
	if !ok {
		c.stats.lost.Inc()
		c.release(m)
		return
	}
	began := c.started(m)
	outs := handlers.Handle(ctx, handlers.Group{}, []*handlers.Delivery{m.delivery}, nil)
	c.ended(began, outs)
	m.cancel(nil)
	c.conclude(ctx, m, outs[0])
}

// runGroup folds the waiting messages of a document. If more have come meanwhile, it makes the group a task again.
func (c *consumer) runGroup(ctx context.Context, g *group) {
	c.mu.Lock()
	n := min(len(g.waiting), maxFold)
	batch := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	c.mu.Unlock()

	c.fold(ctx, g.id, batch)
	clear(batch) // g.waiting may grow in the same memory, which would keep the messages' bodies

	c.mu.Lock()
	more := len(g.waiting) > 0
	if !more {
		delete(c.groups, g.id)
	}
	c.mu.Unlock()
	if more {
		c.pushTask(task{g: g})
	}
}

func (c *consumer) fold(ctx context.Context, id handlers.Group, batch []*message) {
	if c.idle() {
		for _, m := range batch {
			c.giveBack(ctx, m)
		}
		return
	}
	ms := make([]*message, 0, len(batch))
	ds := make([]*handlers.Delivery, 0, len(batch))
	var began time.Time
	for _, m := range batch {
		if !m.ours(c.owned) {
			c.stats.lost.Inc()
			c.release(m)
			continue
		}
		began = c.started(m)
		ms, ds = append(ms, m), append(ds, m.delivery)
	}
	if len(ms) == 0 {
		return
	}
	outs := handlers.Handle(ctx, id, ds, func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []handlers.Ended, error) {
		return c.commit(ctx, work, ms, ends)
	})
	c.ended(began, outs)
	for i, m := range ms {
		c.conclude(ctx, m, outs[i])
	}
}

// started notes that a message's handler starts.
func (c *consumer) started(m *message) time.Time {
	now := time.Now()
	m.began.Store(&now)
	c.stats.running.Inc()
	c.stats.pickup.Observe(max(0, now.Sub(m.sentAt)).Seconds())
	c.room.waited(now.Sub(m.received))
	return now
}

// ended notes that handlers have ended, or were given up.
func (c *consumer) ended(began time.Time, outs []handlers.Outcome) {
	c.stats.running.Sub(float64(len(outs)))
	c.stats.seconds.Observe(time.Since(began).Seconds())
	for _, o := range outs {
		c.countHang(o.Err)
	}
}

// countHang counts the goroutine of a call that was given up, if err is of one.
func (c *consumer) countHang(err error) {
	if hangs, ok := err.(*handlers.HangError); ok {
		c.hung.add(hangs.Ended)
	}
}

// traceMessage logs, at the debug level, each message that comes into hand or leaves it. So a log shows what a worker
// had in hand when it died.
func (c *consumer) traceMessage(ctx context.Context, what string, m *message) {
	if !c.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	c.log.LogAttrs(ctx, slog.LevelDebug, what, slog.String("id", m.envelope.ID), slog.Int("deliveries", m.deliveries),
		slog.Time("sent", m.sentAt), slog.Time("made", m.envelope.Time))
}

// release takes messages out of hand: their deliveries are over for this worker.
func (c *consumer) release(ms ...*message) {
	for _, m := range ms {
		c.traceMessage(context.Background(), "message released", m)
		if m.suspect {
			c.suspects.leave(m)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range ms {
		delete(c.inHand, m)
		c.fetchNext(c.bodies.resize(m, 0))
		c.room.ended(len(c.inHand))
	}
	if len(c.inHand) == 0 {
		c.renewals.Stop() // idle costs nothing
		if c.empty != nil {
			close(c.empty)
			c.empty = nil
		}
	}
}
