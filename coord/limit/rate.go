package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	unitsPerCall = 1000 // of a rate
	bucketTime   = 0.2  // seconds of its share that a bucket holds
)

// A Rate is calls a second, of all processes that name it together. Its methods may be called concurrently.
type Rate struct{ p *part }

// NewRate returns this process's part of a rate. It makes no request. A name is a key of a blob; see storage.CheckKey.
// The limit is at least [LeastRate]. An error is about the store, the name, the limit or cfg.
func NewRate(store *storage.Store, name string, perSecond float64, cfg Config) (*Rate, error) {
	cfg, err := cfg.withDefaults(store, name)
	if err == nil {
		err = CheckRate(perSecond)
	}
	if err != nil {
		return nil, fmt.Errorf("limit: rate %s: %w", storage.Quote(name), err)
	}
	return &Rate{newPart(store, "rate", name, int64(perSecond*unitsPerCall), cfg, bucketTime)}, nil
}

// LocalRate returns a rate of this process alone, without a store.
func LocalRate(perSecond float64) (*Rate, error) {
	if err := CheckRate(perSecond); err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	return &Rate{newLocal("rate", int64(perSecond*unitsPerCall), bucketTime)}, nil
}

// Set changes the limit that this process knows. The smallest of all processes is in force.
func (r *Rate) Set(perSecond float64) error {
	if err := CheckRate(perSecond); err != nil {
		return fmt.Errorf("limit: set %s: %w", storage.Quote(r.p.key), err)
	}
	r.p.setLimit(int64(perSecond * unitsPerCall))
	return nil
}

// Take takes a permit for one call, or returns how long to wait before the next try. While calls are in [Rate.Wait],
// the permits are theirs. The first call of a process that was idle finds none, because it must join the others first.
func (r *Rate) Take() (wait time.Duration, ok bool) { return r.take(false) }

func (r *Rate) take(first bool) (wait time.Duration, ok bool) {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.ask(now)
	p.settle(now)
	if p.tokens >= 1 && (first || p.waiting == 0) {
		p.tokens--
		p.used++
		p.recent[0].used++
		return 0, true
	}
	wait = p.next(now)
	p.refuse(now, wait)
	if share := perSecond(p.force(now)); share > 0 && !first {
		wait += time.Duration(float64(p.waiting) / share * float64(time.Second))
	}
	return wait, false
}

// next returns when there is a permit, under the mutex. Without a share it isn't known.
func (p *part) next(now time.Time) time.Duration {
	share := perSecond(p.force(now))
	if share == 0 {
		return p.cfg.ttl / 20
	}
	return max(time.Duration((1-p.tokens)/share*float64(time.Second)), time.Nanosecond)
}

// Wait waits for a permit and takes it, or returns the cause of ctx. Calls get their permits in the order in which they
// have come.
func (r *Rate) Wait(ctx context.Context) error { return wait(ctx, r.p, r.take) }

// Room returns how many permits there are now, and that come within a time. If there are none, it returns when to look
// again, and a channel that is closed when that changes; the process then counts as one that wants more.
//
// A process that is idle has one: its first call is what joins the others.
func (r *Rate) Room(within time.Duration) (n int, wait time.Duration, changed <-chan struct{}) {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return 1, 0, p.change()
	}
	now := time.Now()
	p.settle(now)
	n = int(p.tokens + perSecond(p.force(now))*within.Seconds())
	if n == 0 {
		p.asked, wait = now, p.next(now)
		p.refuse(now, wait)
	}
	return n, wait, p.change()
}

// Share returns the part of the rate, in calls a second, that is in force in this process now.
func (r *Rate) Share() float64 {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return perSecond(r.p.force(time.Now()))
}

// Leave gives the share back, so that others have it at once. The next call joins again. After an error, others have it
// after 7/6 of the TTL, which is 20 seconds.
func (r *Rate) Leave(ctx context.Context) error { return r.p.leave(ctx) }

// wait repeats take until it succeeds, when all that came before have theirs.
func wait(ctx context.Context, p *part, take func(first bool) (time.Duration, bool)) error {
	line := p.stand()
	defer p.goOn()
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
		p.mu.Lock()
		changed := p.change()
		p.mu.Unlock()
		d, ok := take(true)
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

// stand begins to wait for what others wait for, too. The one that has sent to the line is the first in it.
func (p *part) stand() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line == nil {
		p.line = make(chan struct{}, 1)
	}
	p.waiting++
	return p.line
}

// goOn ends a wait.
func (p *part) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
}
