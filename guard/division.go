package guard

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	turnTime  = 100 * time.Millisecond // for which a consumer keeps a place for messages that may come
	idlePart  = 4                      // consumers without messages get one place of so many
	afterCall = 20 * time.Millisecond  // the message of a call that has ended is released by then
)

// division divides the room of a guard among the consumers of this process that have its Limiter. A promise counts
// until its consumer asks again, and a message counts until it is released.
type division struct {
	tell func() // all consumers, so that they ask again

	many atomic.Bool // consumers

	mu      sync.Mutex
	all     []*limiter
	windows time.Time // when a consumer without messages was given a place last
	timer   *time.Timer
	due     time.Time // when the timer ends
}

// stake is a consumer's part in a division, under its mutex.
type stake struct {
	hand         int       // messages that it may hold without the guard; 0: not known
	told, target int       // messages that it may hold: as it knows, and as it should be
	held         int       // messages that it holds, but for those of before
	before       int       // messages that it has held since the breaker was shut: their handlers take long
	paused       bool      // the breaker is shut, as far as it was told
	idle         bool      // it kept a place for a while, and none came
	begun        time.Time // when it was given a place that it keeps
	came         time.Time // when it held a message last
	served       time.Time // when it had a place, or a message, last
}

func (d *division) join(t *limiter) {
	if t.inHand == nil || t.atMost <= 0 {
		return // what it holds isn't known
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t.hand = t.atMost
	d.all = append(d.all, t)
	d.many.Store(len(d.all) > 1)
}

// setHand notes what a consumer may hold without the guard.
func (d *division) setHand(t *limiter, hand int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.hand = hand
}

// pause notes that a consumer is told that the breaker is shut.
func (d *division) pause(t *limiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.paused = true
}

// before returns how many messages a consumer has held since the breaker was shut. Their handlers do other things than
// calls, and may go on for long: while few calls are let through, they leave the room to others.
func (d *division) before(t *limiter, few bool) int {
	if t.inHand == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch held := t.inHand(); {
	case !few:
		t.before = 0
	case t.paused:
		t.before = held
	default:
		t.before = min(t.before, held)
	}
	t.paused = false
	return t.before
}

func (d *division) leave(t *limiter) {
	d.mu.Lock()
	d.all = slices.DeleteFunc(d.all, func(other *limiter) bool { return other == t })
	d.many.Store(len(d.all) > 1)
	if len(d.all) < 2 && d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.mu.Unlock()
	d.tell()
}

// part returns how many messages a consumer may hold, out of the room for all.
func (d *division) part(t *limiter, room int) int {
	d.mu.Lock()
	part, lowered := d.promise(t, room, time.Now())
	d.mu.Unlock()
	if lowered {
		d.tell()
	}
	return part
}

// promise changes what a consumer may hold, and reports that others can have more thereby.
func (d *division) promise(t *limiter, room int, now time.Time) (part int, lowered bool) {
	if len(d.all) < 2 || !slices.Contains(d.all, t) {
		t.told = min(room, t.hand)
		return room, false
	}
	most := 0
	for _, o := range d.all {
		o.look(now, max(0, o.inHand()-o.before))
		most += o.hand
	}
	if room >= most {
		t.told, t.idle = t.hand, false
		return room, false
	}
	if room > 0 {
		d.aim(room, now)
	} else {
		t.target = 0
	}
	free := room
	for _, o := range d.all {
		if o != t {
			free -= max(o.told, o.held)
		}
	}
	if !slices.ContainsFunc(d.all, func(o *limiter) bool { return !o.idle || o.held > 0 }) {
		free = t.target // each has a place while none has messages
	}
	before := t.told
	t.told = min(t.target, max(before, free))
	window := t.idle && t.told > 0 && room < idlePart && now.Sub(d.windows) >= turnTime
	if window {
		d.windows = now
	}
	if window || before == 0 && t.told > 0 {
		t.begun = now
	}
	if room == 0 {
		return 0, false // for all of them, so there is nothing to divide until that changes
	}
	waits := false
	for _, o := range d.all {
		short := o.told < o.target
		lowered = lowered || short && o != t && t.told < before
		waits = waits || short || o.target == 0 || !o.idle && o.held == 0
	}
	if waits {
		d.soon(turnTime, now)
	}
	return t.told, lowered
}

// look notes what a consumer holds.
func (s *stake) look(now time.Time, held int) {
	s.held = held
	if held > 0 {
		s.idle, s.came = false, now
	}
	if held > 0 || s.told > 0 {
		s.served = now
	}
	if held == 0 && s.told > 0 && now.Sub(s.begun) >= turnTime && now.Sub(s.came) >= turnTime {
		s.idle = true
	}
}

// aim computes what each consumer should have. Those with messages divide the room evenly, but for a part that is for
// those without: one place for each, in turn. While none has messages, each has a place.
func (d *division) aim(room int, now time.Time) {
	var idle, busy []*limiter
	for _, o := range d.all {
		o.target = 0
		if o.idle {
			idle = append(idle, o)
		} else {
			busy = append(busy, o)
		}
	}
	if len(busy) == 0 {
		for _, o := range idle {
			o.target = min(o.hand, max(1, room/len(idle)))
		}
		return
	}
	n := d.forIdle(len(idle), room, now)
	inTurn(idle, now)
	for _, o := range idle[:n] {
		o.target = 1
	}
	room -= n
	if room < len(busy) {
		inTurn(busy, now)
		busy = busy[:room]
	}
	slices.SortStableFunc(busy, func(a, b *limiter) int { return cmp.Compare(a.hand, b.hand) })
	for i, o := range busy {
		o.target = min(o.hand, room/(len(busy)-i))
		room -= o.target
	}
}

// forIdle returns how many of n consumers without messages get a place. Where a part of the room is less than a place,
// one gets a place for a part of the time.
func (d *division) forIdle(n, room int, now time.Time) int {
	if room >= idlePart {
		return min(n, room/idlePart)
	}
	if since := now.Sub(d.windows); since < turnTime || since >= idlePart*turnTime/time.Duration(room) {
		return min(n, 1)
	}
	return 0
}

// inTurn sorts consumers: those that have just been given a place come first, and then those that have had none for the
// longest time.
func inTurn(all []*limiter, now time.Time) {
	slices.SortStableFunc(all, func(a, b *limiter) int {
		if x, y := a.keeps(now), b.keeps(now); x != y {
			if x {
				return -1
			}
			return 1
		}
		return a.served.Compare(b.served)
	})
}

// keeps reports that a consumer has just been given its place.
func (s *stake) keeps(now time.Time) bool { return s.told > 0 && now.Sub(s.begun) < turnTime }

// called notes that a message of a queue has come to its call.
func (d *division) called(queue string) {
	if !d.many.Load() {
		return
	}
	news := false
	d.mu.Lock()
	for _, o := range d.all {
		if o.queue == queue && o.idle {
			o.idle, o.came, news = false, time.Now(), true
		}
	}
	d.mu.Unlock()
	if news {
		d.tell()
	}
}

// ended notes that a call has ended, while consumers are limited. Its message is released a little later.
func (d *division) ended(limited *atomic.Int64) {
	if !d.many.Load() || limited.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.soon(afterCall, time.Now())
}

// soon lets all consumers ask again after a time at most, under the mutex.
func (d *division) soon(after time.Duration, now time.Time) {
	at := now.Add(after)
	if d.timer != nil && now.Before(d.due) && !at.Before(d.due) {
		return
	}
	d.due = at
	if d.timer == nil {
		d.timer = time.AfterFunc(after, d.tell)
		return
	}
	d.timer.Reset(after)
}
