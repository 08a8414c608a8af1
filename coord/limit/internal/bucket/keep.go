package bucket

import "time"

// Known is what a keeper knows of a bucket before a write.
type Known struct {
	Share  int64 // that was written last; 0: there is no row
	Wants  int64 // likewise
	Fresh  bool  // a whole period has passed since the last renewal
	Hungry bool  // others want more than they have
}

// Needs are what a bucket has and wants.
type Needs struct {
	Limit int64 // of the whole number, as this process knows it
	Use   int64 // in force
	Wants int64
}

// Weigh returns what the bucket needs. It ends a share that is in force beyond its time, or beyond what was written.
func (b *Bucket) Weigh(now time.Time, k Known) Needs {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(now, min(b.share.use, k.Share)) // a process that removes a row of ours has watched it for long
	if !now.Before(b.share.until) {
		b.set(now, 0)
	}
	n := Needs{Limit: b.share.limit, Use: b.share.use}
	if !b.attend.leaving {
		n.Wants = min(b.meter.wants(now, k.Wants, b.share.limit, k.Fresh, k.Hungry), b.share.limit)
	}
	return n
}

// Lower puts a share in force if it is smaller. It returns the number of slots in use, which only falls from then on as
// long as it is larger than the share.
func (b *Bucket) Lower(now time.Time, use int64) (underWay int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if use < b.share.use {
		b.set(now, use)
	}
	return b.meter.underWay()
}

// A Grant is a share whose write was acknowledged.
type Grant struct {
	Use   int64
	Until time.Time
	Wants int64 // that was written
	Fresh bool  // it is a renewal
}

// Grant puts a share in force.
func (b *Bucket) Grant(now time.Time, g Grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.meter.fill(now, b.share)
	b.share.safe, b.share.until, b.wanted = 0, g.Until, g.Wants
	b.set(now, min(g.Use, b.share.limit)) // the limit may have been lowered meanwhile
	if g.Fresh {
		b.meter.begin(now, false)
	}
}

// GoOn puts a safe share in force while the store is away: an even part of a limit. A share that had not ended by then
// stays in force, and a bucket that is left gets none.
func (b *Bucket) GoOn(then time.Time, limit, processes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.attend.leaving && !then.Before(b.share.until) {
		b.setSafe(min(b.share.limit, limit) / processes)
	}
}

// Stop takes the safe share back.
func (b *Bucket) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setSafe(0)
}

func (b *Bucket) setSafe(safe int64) {
	if safe != b.share.safe {
		b.meter.fill(time.Now(), b.share)
		b.share.safe = safe
		b.moved()
	}
}

// Until returns when the share ends. If it has ended, those that watch the share are told once.
func (b *Bucket) Until(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !now.Before(b.share.until) && !b.ended.Equal(b.share.until) {
		b.ended = b.share.until
		b.moved()
	}
	return b.share.until
}

// Hurried reports that the bucket wants another share, and its keeper has not heeded that.
func (b *Bucket) Hurried() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attend.hurried
}

// Heed is called by the keeper before it looks what the bucket needs.
func (b *Bucket) Heed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attend.hurried = false
}

// Retire reports that the bucket isn't used any more. Then no share is in force, and the keeper gives the share back
// and calls Retired.
func (b *Bucket) Retire(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.idle(now) {
		return false
	}
	b.set(now, 0)
	b.share.safe = 0
	return true
}

// idle reports that the bucket isn't used any more, under the mutex. A slow rate stays until its next permit is due. A
// bucket without a share stays for longer than it takes to find that those who have it are dead: its caller may wait
// for that.
func (b *Bucket) idle(now time.Time) bool {
	after := b.ttl
	if b.share.use == 0 && !b.attend.leaving {
		after = b.ttl * 7 / 3 // twice the time
	}
	after = max(after, b.meter.apart(b.share.use))
	return b.meter.underWay() == 0 && (b.attend.leaving || now.Sub(b.attend.asked) >= after)
}

// Retired notes that the share was given back, which the keeper began to do at a time. It reports that the bucket has
// no keeper any more. The keeper stays if there was a call meanwhile.
func (b *Bucket) Retired(began time.Time) (left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	stays := b.attend.retired(began)
	if stays {
		b.meter.begin(time.Now(), true)
	}
	b.moved()
	return !stays
}
