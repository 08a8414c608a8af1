package throttle

import (
	"context"
	"net/http"
	"time"
)

// A Pass is a request that was let through. End it, in the goroutine that has it. It must not be copied after its first
// use.
type Pass struct {
	memory *memory
	claim  claim
	id     uint64 // of the tenant's request; 0 for none
	ahead  int64  // nanoseconds by which work that is deferred after it is later
	free   bool   // it is a repeat, and has taken nothing
	known  bool   // its ID was accepted before
	ended  bool
}

// Deferred tells for how long the work of the request shall wait, so that its tenant keeps to quotas with a Defer, or
// because of Backlog.Defer. It is 0 for most requests.
func (p *Pass) Deferred() time.Duration { return time.Duration(p.claim.late) }

// Degraded tells that the request is over a quota whose Over is Degrade.
func (p *Pass) Degraded() bool { return p.claim.less != 0 }

// degradedKey is the key of a context's value: that its request is degraded.
type degradedKey struct{}

// Degraded tells by the request's context that [RateLimiter.Serve] has let a request through although its tenant is
// over a quota. The handler then does less for it, such as leave out what is costly.
func Degraded(ctx context.Context) bool {
	less, _ := ctx.Value(degradedKey{}).(bool)
	return less
}

// deferredKey is the key of a context's value: for how long the work of its request shall wait.
type deferredKey struct{}

// Deferred tells for how long the work of a request shall wait that [RateLimiter.Serve] has let through, by the
// request's context. A handler sends its command with that delay, as host.Accept does:
// channel.After(throttle.Deferred(ctx), m).
func Deferred(ctx context.Context) time.Duration {
	d, _ := ctx.Value(deferredKey{}).(time.Duration)
	return d
}

// An Ending is what a Pass was for.
type Ending int

const (
	// Spent is for a request that has used its quota, whatever became of it.
	Spent Ending = iota

	// Accepted is for a request that was accepted. Repeats of its ID are free from now on, the first ten of them.
	Accepted

	// Void is for a request that must not count, such as one whose sender is not who it says. Its quota is given back,
	// but for what has come back by itself since.
	Void
)

// End ends a request that was let through. The first call counts.
func (p *Pass) End(how Ending) {
	if p.memory == nil || how == Spent && p.claim.plan.simple && p.memory.pressure == nil {
		p.ended = true
		return
	}
	s := p.memory.shard(p.claim.who)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if p.memory.pressure != nil {
		p.memory.pressure.endOf(how, p.claim.late, p.ahead)
	}
	if how == Accepted && p.id != 0 && !p.free {
		s.repeats.accept(p.id)
	}
	if !p.free {
		s.settle(&p.claim, how == Void, p.memory.now())
	}
}

// charge takes bytes that were not announced. They may be more than there are: then the tenant waits longer.
func (p *Pass) charge(bytes int64) {
	p.forBytes(func(s *shard, i int, now int64) { s.charge(&p.claim, i, bytes, now) })
}

// discharge gives back the bytes that were announced, but for those that came.
func (p *Pass) discharge(came int64) {
	p.forBytes(func(s *shard, i int, now int64) { s.discharge(&p.claim, i, came, now) })
}

// forBytes does something with each quota of bytes that the pass has taken of, under the lock of its shard. It does
// nothing for a pass that is free, or has ended.
func (p *Pass) forBytes(do func(s *shard, i int, now int64)) {
	s := p.memory.shard(p.claim.who)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.free || p.ended {
		return
	}
	now := p.memory.now()
	for i := range p.claim.plan.rules {
		if p.claim.plan.rules[i].Unit == Bytes && p.claim.less>>i&1 == 0 {
			do(s, i, now)
		}
	}
}

// SetFields sets RateLimit-Policy and RateLimit, which tell clients of their quotas before they are used up. Those of a
// free repeat, which has taken nothing, tell what is left now. Serve calls it.
func (p *Pass) SetFields(h http.Header) {
	if p.memory == nil {
		return
	}
	s := p.memory.shard(p.claim.who)
	s.mu.Lock()
	now := p.claim // somebody may read the body still, which is charged
	if p.free {
		now.at = p.memory.now()
		for i := range p.claim.plan.rules {
			now.after[i] = *s.seen(&p.claim.plan.rules[i], p.claim.who.hash, now.at)
		}
	}
	s.mu.Unlock()
	now.setFields(h, p.memory.key, 0, 0)
}
