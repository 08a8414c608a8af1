package doorbell

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// pause is the time between two rounds of rings of one queue, sent or received.
	pause = 20 * time.Millisecond

	// secondLook is the time from the end of a delay to a second ring. Engines keep whole seconds, by a clock of their
	// own.
	secondLook = time.Second

	alarmStep = 100 * time.Millisecond // alarms closer together than this become one
	maxAlarms = 1000                   // of one queue; polls find the latest messages
	longest   = time.Hour              // between two turns
)

// A clock counts from the start of a store, by the monotonic clock.
type clock struct{ start time.Time }

func (c clock) now() time.Duration { return time.Since(c.start) }

// bells are the queues that consumers of this process wait for, or whose listeners it has to ring.
type bells struct {
	clock
	kicked chan struct{} // of capacity 1: a turn is needed sooner than planned

	mu     sync.Mutex
	queues map[string]*bell
	closed bool
}

// A bell is one queue, or another topic.
type bell struct {
	watchers map[chan struct{}]struct{}
	incoming limit   // of rings from other processes to the watchers
	outgoing limit   // of rings to other processes
	everyone bool    // the next ring to others goes to all listeners
	alarms   []alarm // by time

	rang    time.Duration // when the watchers were last rung
	looked  time.Duration // when the last Receive began
	nothing bool          // it found nothing
	failed  bool          // it failed
	trusted bool          // another process has rung since the last message that came without a ring
}

// An alarm is the end of a delay, when messages become receivable.
type alarm struct {
	at    time.Duration
	again bool // a second ring follows
}

// A limit allows an event at once, and then once in each pause; an event in between waits.
type limit struct {
	next    time.Duration
	waiting bool
}

// take reports whether the waiting event is allowed now.
func (l *limit) take(now time.Duration) bool {
	if !l.waiting || now < l.next {
		return false
	}
	l.waiting, l.next = false, now+pause
	return true
}

// due is one round of rings to other processes.
type due struct {
	queue    string
	local    int  // 1 if this process waits for the queue itself
	everyone bool // all listeners are to be rung
}

func newBells(c clock) *bells {
	return &bells{clock: c, kicked: make(chan struct{}, 1), queues: map[string]*bell{}}
}

// close stops everything except [bells.rest].
func (b *bells) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

func (b *bells) kick() {
	select {
	case b.kicked <- struct{}{}:
	default:
	}
}

// bell returns the bell of a queue; mu is held.
func (b *bells) bell(queue string) *bell {
	q := b.queues[queue]
	if q == nil {
		q = &bell{watchers: map[chan struct{}]struct{}{}}
		b.queues[queue] = q
	}
	return q
}

// watch adds a consumer of this process.
func (b *bells) watch(queue string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return c, func() {}
	}
	b.bell(queue).watchers[c] = struct{}{}
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if q := b.queues[queue]; q != nil {
			delete(q.watchers, c)
		}
		b.kick() // removes the bell, if it is unused
	}
}

// watched lists the queues that consumers of this process wait for.
func (b *bells) watched() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for name, q := range b.queues {
		if len(q.watchers) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sent rings a queue, here and elsewhere, now or at the end of the delay.
func (b *bells) sent(queue string, delay time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	q := b.bell(queue)
	if delay > 0 {
		b.alarm(q, delay)
		return
	}
	q.ring(b.now())
	b.ringOthersSoon(q)
}

// ringAll rings all listeners of a topic, here and elsewhere.
func (b *bells) ringAll(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	q := b.bell(topic)
	q.everyone = true
	q.ring(b.now())
	b.ringOthersSoon(q)
}

// backlog rings a queue elsewhere after a full Receive, because other workers will find messages, too. Each worker
// that is rung does the same, until all are awake or no message is left.
func (b *bells) backlog(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q := b.queues[queue]; q != nil && !b.closed {
		b.ringOthersSoon(q)
	}
}

func (b *bells) ringOthersSoon(q *bell) {
	if !q.outgoing.waiting {
		q.outgoing.waiting = true
		b.kick()
	}
}

// ringForOther rings the queue's consumers here for another process. It reports whether a consumer waits for it here.
func (b *bells) ringForOther(queue string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[queue]
	if q == nil || b.closed || len(q.watchers) == 0 {
		return false
	}
	q.trusted = true
	q.incoming.waiting = true
	if now := b.now(); q.incoming.take(now) {
		q.ring(now)
	} else {
		b.kick()
	}
	return true
}

// received notes the result of a Receive that began at that time. It reports a sign that this process's row is
// gone:
//
//   - The store works again after a failure.
//   - A message has come since the last Receive without a ring, although other processes do ring.
//
// After one message without a ring, the next one is no sign until another process has rung again: all its rings may be
// lost on the way.
func (b *bells) received(queue string, began time.Duration, n int, err error) (sign bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[queue]
	if q == nil || len(q.watchers) == 0 {
		return false
	}
	silent := n > 0 && q.nothing && q.rang < q.looked && q.trusted
	sign = err == nil && (q.failed || silent)
	q.looked, q.nothing, q.failed = began, err == nil && n == 0, err != nil
	q.trusted = q.trusted && !silent
	return sign
}

// alarm sets an alarm in d from now. It rounds d up to whole seconds, as engines do; mu is held.
func (b *bells) alarm(q *bell, d time.Duration) {
	at := b.now() + (d + time.Second - 1).Truncate(time.Second)
	at = (at + alarmStep - 1).Truncate(alarmStep)
	q.setAlarm(at, true)
	if q.alarms[0].at == at {
		b.kick()
	}
}

// setAlarm sets an alarm, unless there are too many earlier ones.
func (q *bell) setAlarm(at time.Duration, again bool) {
	i, ok := slices.BinarySearchFunc(q.alarms, at, func(a alarm, at time.Duration) int { return cmp.Compare(a.at, at) })
	if !ok {
		q.alarms = slices.Insert(q.alarms, i, alarm{at: at})
		q.alarms = q.alarms[:min(len(q.alarms), maxAlarms)]
	}
	if i < maxAlarms {
		q.alarms[i].again = q.alarms[i].again || again
	}
}

// ring rings the consumers of this process.
func (q *bell) ring(now time.Duration) {
	q.rang = now
	for c := range q.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// run rings the consumers of this process and the listeners elsewhere when they are due. When ctx ends, it sends
// the waiting rings and returns.
func (b *bells) run(ctx context.Context, ringOthers func(due)) {
	for {
		list, wait := b.turn(b.now())
		for _, x := range list {
			ringOthers(x)
		}
		select {
		case <-ctx.Done():
			for _, x := range b.rest() {
				ringOthers(x)
			}
			return
		case <-b.kicked:
		case <-time.After(wait):
		}
	}
}

// turn rings the consumers of this process that are due. It returns the rings that are due to others, and the time
// until the next turn.
func (b *bells) turn(now time.Duration) (list []due, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := now + longest
	for name, q := range b.queues {
		for len(q.alarms) > 0 && q.alarms[0].at <= now {
			a := q.alarms[0]
			q.alarms = slices.Delete(q.alarms, 0, 1)
			if a.again {
				q.setAlarm(a.at+secondLook, false)
			}
			q.ring(now)
			q.outgoing.waiting = true
		}
		if q.incoming.take(now) {
			q.ring(now)
		}
		if q.outgoing.take(now) {
			list = append(list, q.takeDue(name))
		}
		if len(q.alarms) > 0 {
			next = min(next, q.alarms[0].at)
		}
		for _, l := range []limit{q.incoming, q.outgoing} {
			if l.waiting {
				next = min(next, l.next)
			}
		}
		if len(q.watchers)+len(q.alarms) == 0 && !q.outgoing.waiting {
			if q.outgoing.next <= now {
				delete(b.queues, name)
			} else {
				next = min(next, q.outgoing.next)
			}
		}
	}
	return list, next - now
}

// takeDue returns the queue's next round.
func (q *bell) takeDue(name string) due {
	x := due{name, min(1, len(q.watchers)), q.everyone}
	q.everyone = false
	return x
}

// rest returns the waiting rounds at the end, and forgets all queues.
func (b *bells) rest() []due {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []due
	for name, q := range b.queues {
		if q.outgoing.waiting {
			list = append(list, q.takeDue(name))
		}
	}
	clear(b.queues)
	return list
}
