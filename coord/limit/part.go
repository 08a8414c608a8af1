package limit

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/storage"
)

const (
	headroom     = 1.2  // how much more a part of a rate wants than it used
	headStart    = 0.05 // calls a second, likewise
	nearlyAll    = 0.9
	leastSpell   = 2 * time.Second
	spellPermits = 16 // that a spell has, if it isn't too long
)

// part is one process's part of a number. Calls take from it without a request. A goroutine keeps it up to date while
// there are calls; see member.
type part struct {
	store  *storage.Store
	key    string // of the document
	cfg    Config
	id     string
	bucket float64 // seconds of the share that the bucket holds; 0: there is none, a share counts calls at a time

	seen    agree.Sighting[document] // of the document, by this member or an earlier one; the member's alone
	mu      sync.Mutex
	local   bool // all of it is this process's own
	limit   int64
	use     int64       // by the last write that was acknowledged, or less
	until   time.Time   // when use ends
	safe    int64       // in use afterwards, while the store is away
	beat    int64       // of the last write; it goes on when the part joins again, so no two of its rows have the same
	running bool        // there is a member
	loop    *agree.Loop // of the member
	leaving bool
	left    chan struct{} // closed when the member ends, or stays after all
	changed chan struct{} // closed when more may be had; nil: nobody waits
	waiting int           // calls that wait for a permit or slot
	line    chan struct{} // capacity 1: full while one of them is the first; nil: none has ever waited

	tokens float64   // in the bucket, in calls
	filled time.Time // when the bucket was looked at
	busy   int64     // calls under way

	asked   time.Time // the last call
	hurried bool      // the part wants another share, and the member has not looked since
	eager   bool      // it is not known yet how much the part needs; of slots also: all were in use
	wanted  int64     // by the last write that was acknowledged
	used    int64     // since the last renewal: permits, or the most calls at a time
	since   time.Time // when that was
	recent  [2]spell  // this one, and the last
	due     time.Time // when a call that was refused is to try again: until then it waits
}

// spell is a short time of a rate's part.
type spell struct {
	since       time.Time
	given, used float64 // permits
	refused     bool
	idle        bool // a permit was left for half of the time of a bucket
}

func newPart(store *storage.Store, kind, name string, limit int64, cfg Config, bucket float64) *part {
	return &part{store: store, key: kind + "/" + name, cfg: cfg, id: rand.Text(), limit: limit, bucket: bucket}
}

// newLocal returns the whole of a number. No other process has part of it.
func newLocal(kind string, limit int64, bucket float64) *part {
	now := time.Now()
	return &part{
		key: kind, cfg: Config{ttl: minTTL, Changed: func() {}}, bucket: bucket,
		local: true, running: true, limit: limit, use: limit, until: now.AddDate(100, 0, 0), filled: now,
	}
}

// force returns the share that is in force, under the mutex.
func (p *part) force(now time.Time) int64 {
	if now.Before(p.until) {
		return p.use
	}
	return p.safe
}

// perSecond is a share of a rate.
func perSecond(units int64) float64 { return float64(units) / unitsPerCall }

// settle fills the bucket up to now, under the mutex. It is called before the share in force changes. A share that has
// ended takes what is in its bucket with it.
func (p *part) settle(now time.Time) {
	share := perSecond(p.force(now))
	if now.Before(p.until) || !p.filled.Before(p.until) {
		more := share * now.Sub(p.filled).Seconds()
		p.tokens += more
		p.recent[0].given += more
		p.recent[0].idle = p.recent[0].idle || p.tokens >= 1+share*p.bucket/2
		if age := now.Sub(p.recent[0].since); age >= leastSpell && (p.recent[0].given >= spellPermits || age >= p.cfg.ttl/3) {
			p.recent[0], p.recent[1] = spell{since: now, refused: now.Before(p.due)}, p.recent[0]
		}
	} else {
		p.tokens = 0
	}
	p.filled = now
	if share == 0 {
		p.tokens = 0
	}
	p.tokens = min(p.tokens, max(1, share*p.bucket))
}

// ask notes a call, under the mutex. A part without a member gets one.
func (p *part) ask(now time.Time) {
	p.asked = now
	if p.local {
		return
	}
	if p.leaving { // it stays
		p.leaving = false
		close(p.left)
		p.left = make(chan struct{})
	}
	if p.running {
		return
	}
	p.running, p.left = true, make(chan struct{})
	p.eager, p.used, p.since = true, 0, now
	m := newMember(p)
	p.loop = m.loop
	go m.run()
}

// starving reports that the part wants more than it is given, under the mutex. For a rate that is when its last spell
// used nearly all, was refused a call, and left no permit for a while. The permit that is due may be missing.
func (p *part) starving() bool {
	last := p.recent[1]
	return p.eager || p.bucket > 0 && last.refused && !last.idle && last.used+1 >= nearlyAll*last.given
}

// refuse notes that the part wants more than it has, and that the call tries again after a time, under the mutex. It
// may sleep through whole spells, and counts as refused in each.
func (p *part) refuse(now time.Time, wait time.Duration) {
	p.recent[0].refused, p.due = true, now.Add(wait)
	if p.wanted < p.limit && p.starving() {
		p.hurry()
	}
}

// hurry lets the member look soon, under the mutex.
func (p *part) hurry() {
	if !p.running || p.local {
		return
	}
	p.hurried = true
	p.loop.Wake()
}

// set changes the share in use, under the mutex.
func (p *part) set(now time.Time, use int64) {
	p.settle(now)
	if use == p.use {
		return
	}
	p.use = use
	p.moved()
}

// moved tells that the share has changed, under the mutex.
func (p *part) moved() {
	p.tell()
	p.cfg.Changed()
}

// tell wakes those that wait for a change, under the mutex.
func (p *part) tell() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// change returns a channel that is closed when more may be had, under the mutex.
func (p *part) change() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// setLimit changes the limit. The share in use falls at once.
func (p *part) setLimit(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if limit == p.limit {
		return
	}
	p.limit = limit
	now := time.Now()
	p.settle(now)
	p.safe = min(p.safe, limit)
	if p.local {
		p.set(now, limit)
		return
	}
	p.set(now, min(p.use, limit))
	p.hurry()
}

// leave gives the share back; calls that are under way keep their part of it until they end.
func (p *part) leave(ctx context.Context) error {
	p.mu.Lock()
	left, busy := p.left, p.busy > 0
	if !p.running || p.local {
		p.mu.Unlock()
		return nil
	}
	p.leaving = true
	p.hurry()
	p.mu.Unlock()
	if busy {
		return nil
	}
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("limit: leave %s: %w", storage.Quote(p.key), context.Cause(ctx))
	}
}

// idle reports that the part isn't used any more, under the mutex. A slow rate stays until its next permit is due. One
// without a share stays for longer than it takes to find that those who have it are dead: its caller may wait for that.
func (p *part) idle(now time.Time) bool {
	after := p.cfg.ttl
	if p.use == 0 && !p.leaving {
		after = p.cfg.ttl * 7 / 3 // twice the time
	}
	if p.bucket > 0 && p.use > 0 {
		after = max(after, time.Duration(2/perSecond(p.use)*float64(time.Second)))
	}
	return p.busy == 0 && (p.leaving || now.Sub(p.asked) >= after)
}

// wants is how much the part can use, under the mutex. fresh says that a whole period has passed, and hungry that
// others want more than they have: then it doesn't keep for a period what it no longer uses.
func (p *part) wants(now time.Time, before int64, fresh, hungry bool) int64 {
	switch {
	case p.leaving:
		return 0
	case p.starving():
		return p.limit
	case !fresh:
		if hungry && p.bucket > 0 && !p.recent[1].since.IsZero() {
			if less := somewhatMore(p.recent[0].used+p.recent[1].used, now.Sub(p.recent[1].since)); less < before*3/4 {
				before = less
			}
		}
		return min(before, p.limit)
	case p.bucket > 0:
		return min(somewhatMore(float64(p.used), now.Sub(p.since)), p.limit)
	}
	return min(max(p.used, p.busy)+1, p.limit)
}

// somewhatMore is what a part of a rate wants that has used so many permits in a time.
func somewhatMore(used float64, in time.Duration) int64 {
	return int64((headroom*used/max(in, time.Second).Seconds() + headStart) * unitsPerCall)
}
