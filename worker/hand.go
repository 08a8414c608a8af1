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

	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage/inbox"
)

const (
	drainers  = 8               // goroutines, besides the others, that hand back waiting messages
	stopGrace = 5 * time.Second // for handlers that have been told to stop
)

// hand holds the messages of one queue that this worker has, and runs their handlers, as many at a time as the limit
// says. It renews the messages until their deliveries are over.
//
//	take -> sort -> backlog -> runner -> settler
//	                  ^ \-> fetcher
//	                  \-------/
//
// A message that can't be routed yet is a task for the fetcher first. One that isn't due is handed back, and a closed
// hand hands back all that wait.
type hand struct {
	setup
	settler  *settler
	opener   *opener
	renewer  renewer
	room     *room
	hung     *hung
	suspects *suspects // of all consumers of the worker
	bodies   *bodyRoom
	backlog  *backlog
	starts   *starts
	fetcher  *fetcher
	runner   *runner
	single   atomic.Bool             // there were suspects among the last messages: receive one at a time
	cutOff   context.CancelCauseFunc // ends the contexts of all handlers
	renewals *time.Ticker            // runs while something is in hand

	mu     sync.Mutex
	most   int // handlers at a time
	inHand map[*message]struct{}
	empty  chan struct{} // closed when nothing is in hand; made by drain, which waits for that
}

// newHand returns a hand. Handlers run under a context that is derived from base.
func newHand(base context.Context, with setup, r *room, hangs *hung, s *suspects) *hand {
	running, cutOff := context.WithCancelCause(wire.WithMostAttempts(base, with.cfg.MaxAttempts))
	owned := ownedFor(with.cfg.Visibility)
	h := &hand{
		setup:    with,
		opener:   newOpener(with),
		renewer:  renewer{setup: with},
		room:     r,
		hung:     hangs,
		suspects: s,
		bodies:   &bodyRoom{most: with.cfg.MaxBodies},
		starts:   &starts{setup: with, room: r, hung: hangs},
		cutOff:   cutOff,
		most:     with.cfg.Concurrency,
		inHand:   map[*message]struct{}{},
	}
	h.settler = newSettler(base, with, hangs, h.release)
	h.settler.stopped = running.Done()
	h.backlog = newBacklog(h.most, with.cfg.Reserve.slots(), func(t task, spare bool) { h.run(running, t, spare) })
	h.fetcher = &fetcher{
		setup: with, settler: h.settler, opener: h.opener, suspects: s, bodies: h.bodies, backlog: h.backlog, starts: h.starts, owned: owned,
	}
	h.runner = &runner{setup: with, settler: h.settler, starts: h.starts, owned: owned}
	h.renewals = time.NewTicker(h.every())
	h.renewals.Stop()
	return h
}

// every is how often the messages in hand are looked through.
func (h *hand) every() time.Duration { return min(h.renewer.every(), mayWait(h.setup)/4) }

// setConcurrency changes how many handlers run at a time. Those that run go on.
func (h *hand) setConcurrency(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = n
	h.limit()
}

// setClosed closes the hand, or opens it again. A closed hand hands back the messages that wait, and those that come.
// Running handlers go on.
func (h *hand) setClosed(closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starts.closed.Store(closed)
	h.limit()
	h.backlog.add(h.bodies.setClosed(closed))
}

// limit says how many tasks run at a time. However busy the handlers are, a closed hand has others to hand back.
func (h *hand) limit() {
	spare := 0
	if h.starts.closed.Load() {
		spare = drainers
	}
	h.backlog.crew.setLimit(h.most, spare)
}

// take takes received messages in hand.
func (h *hand) take(b inbox.Batch) []*message {
	now := time.Now()
	ms := make([]*message, len(b.Deliveries))
	for i, d := range b.Deliveries {
		ms[i] = &message{queue: h.queue, body: d.Body, deliveries: d.Deliveries, sentAt: d.SentAt, asked: b.Since, received: now, claim: newClaim(d.Receipt, b.Since)}
	}
	lower := 0
	for _, m := range ms {
		if m.lower = h.cfg.Reserve.keepsOut(m.body); m.lower {
			lower++
		}
	}
	h.room.take(len(ms), lower, b.Full)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.inHand) == 0 && len(ms) > 0 {
		h.renewals.Reset(h.every())
	}
	for _, m := range ms {
		h.inHand[m] = struct{}{}
	}
	h.stats.inHand.Store(int64(len(h.inHand)))
	return ms
}

// sort opens messages that came together and makes each a task or adds it to its group; suspects are kept apart. New
// groups become tasks only when all the messages are in. When the user's code panics or hangs while a message is
// resolved, that message alone fails.
func (h *hand) sort(ctx context.Context, ms []*message) {
	var begun []*group
	var suspects []*message
	next := func(m *message) {
		m.trace(ctx, h.log, "message taken")
		switch {
		case m.bad != nil && !h.opener.toTurn(m):
			h.backlog.crew.push(task{m: m, err: m.bad})
		case m.bad != nil:
			if g := h.backlog.route(m); g != nil {
				begun = append(begun, g)
			}
		case m.early:
			h.backlog.crew.push(task{m: m})
		case h.opener.suspicious(m):
			suspects = append(suspects, m)
		case h.opener.toFetch(m):
			h.backlog.crew.push(task{m: m}) // a working goroutine asks the store
		default:
			if g := h.backlog.route(m); g != nil {
				begun = append(begun, g)
			}
		}
	}
	var open []*message
	for _, m := range ms { // all are decoded before any may hang, because those behind a hang are handed back
		h.opener.open(m)
		if h.opener.ready(m) {
			open = append(open, m)
		} else {
			next(m)
		}
	}
	usercode.Guard(decoding, len(open), func(i int) resolved {
		return h.opener.resolve(open[i])
	}, func(i int, r resolved) {
		open[i].delivery, open[i].bad = r.delivery, r.err
		next(open[i])
	}, func(i int, err error) {
		h.hung.count(err)
		open[i].bad = err
		next(open[i])
	})
	for _, g := range begun {
		h.backlog.crew.push(task{g: g})
	}
	h.keepApart(ctx, suspects)
}

// keepApart lets one suspect go on and hands the others back.
func (h *hand) keepApart(ctx context.Context, ms []*message) {
	h.single.Store(len(ms) > 0) // other suspects were handed back and come again
	for i, m := range ms {
		m.suspect = true
		entered, since := h.suspects.enter(m)
		if !entered {
			// One suspect comes after the other, but not again and again while one takes long.
			delay := max(inbox.FirstLook, min(since, retryMost))
			each(ms[i:], func(m *message) {
				if m.claim.end() {
					h.settler.handBack(ctx, m, delay, nil)
				}
			})
			return
		}
		h.log.LogAttrs(ctx, slog.LevelWarn, "message delivered repeatedly without outcome; isolating it",
			slog.String("id", m.envelope.ID), slog.String("kind", string(m.envelope.Kind)), slog.Int("deliveries", m.deliveries))
		h.backlog.crew.push(task{m: m})
	}
}

// run does a task. No handler runs on a spare goroutine.
func (h *hand) run(ctx context.Context, t task, spare bool) {
	idle := spare || h.starts.stopped()
	switch {
	case t.g != nil:
		h.runGroup(ctx, t.g, idle)
	case t.err != nil:
		t.m.beginSpan(&h.setup, time.Now())
		h.settler.conclude(ctx, t.m, handling.Outcome{Err: t.err})
	case t.m.early:
		h.settler.postpone(ctx, t.m)
	case idle:
		h.settler.giveBack(ctx, t.m)
	case t.m.delivery == nil:
		h.fetcher.fetch(ctx, t.m)
	default:
		h.runner.runOne(ctx, t.m)
	}
}

// runGroup runs messages of a group, or hands them back. If messages are left or have come meanwhile, it makes the
// group a task again.
func (h *hand) runGroup(ctx context.Context, g *group, idle bool) {
	batch := h.backlog.groups.next(g)
	if idle {
		each(batch, func(m *message) { h.settler.giveBack(ctx, m) })
	} else {
		h.backlog.groups.putBack(g, h.runner.runGroup(ctx, g.id, batch))
	}
	clear(batch) // g.waiting may grow in the same memory, which would keep the messages' bodies
	if h.backlog.groups.more(g) {
		h.backlog.crew.push(task{g: g})
	}
}

// release takes a message out of hand: its delivery is over for this worker.
func (h *hand) release(m *message) {
	m.trace(context.Background(), h.log, "message released")
	m.endSpan()
	if m.suspect {
		h.suspects.leave(m)
	}
	h.backlog.add(h.bodies.leave(m))
	h.mu.Lock()
	delete(h.inHand, m)
	h.stats.inHand.Store(int64(len(h.inHand)))
	if len(h.inHand) == 0 {
		h.renewals.Stop() // idle costs nothing
		if h.empty != nil {
			close(h.empty)
			h.empty = nil
		}
	}
	h.mu.Unlock()
	h.room.leave(m.lower)
}

// watch renews the messages in hand until ctx ends, and hands back those that wait for too long.
func (h *hand) watch(ctx context.Context) {
	defer h.renewals.Stop()
	u := unstarted{setup: h.setup, starts: h.starts, backlog: h.backlog, bodies: h.bodies, room: h.room}
	defer u.looks.Wait()
	for {
		select {
		case <-h.renewals.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		u.look(ctx, now)
		var old []*message
		h.mu.Lock()
		for m := range h.inHand {
			if h.renewer.old(m, now) {
				old = append(old, m)
			}
		}
		h.mu.Unlock()
		h.renewer.renew(ctx, old, now)
	}
}

// drain closes the hand and waits until nothing is in it. Handlers that run longer than DrainTimeout are told to stop.
// The messages of those that don't are handed back, as far as the store answers in time. They run on, and their results
// don't count.
func (h *hand) drain() error {
	defer h.cutOff(nil)
	h.setClosed(true)
	empty := make(chan struct{})
	h.mu.Lock()
	if len(h.inHand) > 0 {
		h.empty = empty
	} else {
		close(empty)
	}
	h.mu.Unlock()
	timer := time.NewTimer(h.all.DrainTimeout)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
		h.cutOff(ErrDraining)
		timer.Reset(stopGrace)
		select {
		case <-empty:
		case <-timer.C:
			return h.abandon()
		}
	}
	h.backlog.crew.wait()
	h.settler.wait()
	return nil
}

// abandon hands back the messages of handlers that would not stop.
func (h *hand) abandon() error {
	h.mu.Lock()
	stuck := slices.Collect(maps.Keys(h.inHand))
	h.mu.Unlock()
	stuck = slices.DeleteFunc(stuck, func(m *message) bool { return !m.claim.end() })
	if len(stuck) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), outcomeTime)
	defer cancel()
	each(stuck, func(m *message) {
		if ctx.Err() == nil {
			h.settler.handBack(ctx, m, 0, nil)
		}
	})
	return fmt.Errorf("worker: queue %s: %d handler(s) did not stop in %v; their messages were handed back as far as the store answered",
		h.queue, len(stuck), h.all.DrainTimeout+stopGrace)
}
