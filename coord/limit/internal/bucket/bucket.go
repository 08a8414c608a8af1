package bucket

import (
	"context"
	"sync"
	"time"
)

// A Config is what a bucket stands on.
type Config struct {
	// TTL is for how long a share lasts.
	TTL time.Duration

	// Changed is called when the share changes, under a mutex. It returns at once. Nil is none.
	Changed func()

	// Join starts a keeper of the bucket, and returns how to wake the keeper. Both are called under a mutex, and return
	// at once. Nil means that the whole number is the bucket's for ever.
	Join func(b *Bucket) (wake func())
}

// A meter is what a share means: permits that come with the time, or places for calls. It decides which call gets one,
// and how much its process needs. A meter is used under the mutex of its bucket.
type meter interface {
	// fill brings the meter up to date. It is called before anything else is asked, and before the share changes.
	fill(now time.Time, s share)

	// take takes a permit, if the share in force has one. short says that more is wanted for the next call.
	take(share int64) (taken, short bool)

	// refuse notes that a call got no permit. It returns when the call is to try again, if others are ahead of it.
	// short says that more is wanted.
	refuse(now time.Time, share int64, ahead int) (due time.Duration, short bool)

	// give takes back what a call had that has ended.
	give()

	// underWay is the number of calls whose permits are to be given back.
	underWay() int64

	// room is the number of calls that can begin within a time.
	room(share int64, within time.Duration) int

	// wants is how much the process needs, most at most, and before by the last renewal. fresh says that a whole period
	// has passed since then. hungry says that others want more than they have.
	wants(now time.Time, before, most int64, fresh, hungry bool) int64

	// apart is how far calls may be apart without being the end of all calls.
	apart(share int64) time.Duration

	// begin begins a period. eager says that it isn't known yet how much is needed.
	begin(now time.Time, eager bool)
}

// A Bucket is one process's part of a number. Its methods may be called concurrently.
type Bucket struct {
	ttl     time.Duration
	changed func()

	mu     sync.Mutex
	share  share
	meter  meter
	wanted int64     // by the last write that was acknowledged
	ended  time.Time // the end of the share that was told last
	attend attend
	line   line
	watch  watch
}

// NewRate returns a bucket of calls a second. The limit is in thousandths; see [Units].
func NewRate(limit int64, cfg Config) *Bucket {
	return newBucket(&permits{ttl: cfg.TTL}, limit, cfg)
}

// NewSlots returns a bucket of calls at a time.
func NewSlots(limit int64, cfg Config) *Bucket {
	return newBucket(&places{ttl: cfg.TTL}, limit, cfg)
}

func newBucket(m meter, limit int64, cfg Config) *Bucket {
	b := &Bucket{ttl: cfg.TTL, changed: cfg.Changed, share: share{limit: limit}, meter: m}
	if b.changed == nil {
		b.changed = func() {}
	}
	if cfg.Join == nil {
		now := time.Now()
		m.fill(now, b.share) // permits come from now on
		b.share.use, b.share.until = limit, now.AddDate(100, 0, 0)
		b.attend.running = true
		return b
	}
	b.attend.join = func() func() { return cfg.Join(b) }
	return b
}

// Take takes a permit for one call, or returns how long to wait before the next try. While calls are in [Bucket.Wait],
// the permits are theirs. The first call of an idle bucket finds none, because the keeper must get a share first.
func (b *Bucket) Take() (wait time.Duration, ok bool) { return b.take(false) }

func (b *Bucket) take(first bool) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.attend.ask(now) {
		b.meter.begin(now, true)
		b.attend.start()
	}
	b.meter.fill(now, b.share)
	force, ahead, short := b.share.force(now), b.line.waiting, false
	if first || ahead == 0 {
		ok, short = b.meter.take(force)
	}
	if !ok {
		if first {
			ahead = 0
		}
		wait, short = b.meter.refuse(now, force, ahead)
	}
	b.press(short)
	return wait, ok
}

// press lets the keeper look soon if more is wanted than was asked for, under the mutex.
func (b *Bucket) press(short bool) {
	if short && b.wanted < b.share.limit {
		b.attend.hurry()
	}
}

// Give gives back what a call took of slots, when the call has ended.
func (b *Bucket) Give() {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := b.meter.underWay() > b.share.use
	b.meter.give()
	b.watch.tell()
	if over || b.attend.leaving && b.meter.underWay() == 0 {
		b.attend.hurry() // others wait for it
	}
}

// Wait waits for a permit and takes it, or returns the cause of ctx. Calls get their permits in the order in which they
// have come.
func (b *Bucket) Wait(ctx context.Context) error {
	b.mu.Lock()
	line := b.line.stand()
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.line.waiting--
	}()
	select {
	case line <- struct{}{}: // in the order of those that wait
		defer func() { <-line }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.mu.Lock()
		changed := b.watch.next()
		b.mu.Unlock()
		d, ok := b.take(true)
		if ok {
			return nil
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Room returns how many permits there are now and within a time, or how many slots, including those in use. If there is
// none, Room returns when to look again, and the process counts as one that wants more. The channel is closed when the
// share changes.
//
// A process that is idle has one: its first call is what joins the others.
func (b *Bucket) Room(within time.Duration) (n int, wait time.Duration, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.attend.running {
		return 1, 0, b.watch.next()
	}
	now := time.Now()
	b.meter.fill(now, b.share)
	n = b.meter.room(b.share.force(now), within)
	if n == 0 {
		b.attend.asked = now
		var short bool
		wait, short = b.meter.refuse(now, b.share.force(now), 0)
		b.press(short)
	}
	return n, wait, b.watch.next()
}

// Share returns what is in force now.
func (b *Bucket) Share() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.share.force(time.Now())
}

// SetLimit changes the limit. The share in use falls at once.
func (b *Bucket) SetLimit(limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if limit == b.share.limit {
		return
	}
	now := time.Now()
	b.meter.fill(now, b.share)
	b.share.limit, b.share.safe = limit, min(b.share.safe, limit)
	if b.attend.join == nil {
		b.set(now, limit)
		return
	}
	b.set(now, min(b.share.use, limit))
	b.attend.hurry()
}

// set changes the share in use, under the mutex.
func (b *Bucket) set(now time.Time, use int64) {
	b.meter.fill(now, b.share)
	if use == b.share.use {
		return
	}
	b.share.use = use
	b.moved()
}

// moved tells that the share has changed, under the mutex.
func (b *Bucket) moved() {
	b.watch.tell()
	b.changed()
}

// Leave gives the share back, and waits for that. Calls that are under way keep their part of the share until they end;
// then Leave doesn't wait. The error is the cause of ctx.
func (b *Bucket) Leave(ctx context.Context) error {
	b.mu.Lock()
	left, busy := b.attend.leave(), b.meter.underWay() > 0
	b.mu.Unlock()
	if left == nil || busy {
		return nil
	}
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
