package throttle

import (
	"context"
	"time"
)

// A Pass is a request that was let through. End it, in the goroutine that has it. It must not be copied after its first
// use.
type Pass struct {
	limiter *RateLimiter
	plan    *plan
	who     party
	id      uint64 // of the tenant's request; 0 for none
	at      int64
	bytes   int64
	after   [maxQuotas]int64 // the words since this request's last charge
	own     [maxQuotas]int64 // what this request has raised them by
	given   [maxQuotas]total // what had been given back in the words' parts of the shard, at that charge
	late    int64            // nanoseconds after at, for which its work is deferred
	ahead   int64            // nanoseconds by which work that is deferred after it is later
	shared  uint8            // a bit for each word that newcomers share
	less    uint8            // a bit for each quota that it is over, and that degrades
	free    bool             // it is a repeat, and has taken nothing
	known   bool             // its ID was accepted before
	ended   bool
}

// Deferred tells for how long the work of the request shall wait, so that its tenant keeps to quotas with a Defer, or
// because of Backlog.Defer. It is 0 for most requests.
func (p *Pass) Deferred() time.Duration { return time.Duration(p.late) }

// Degraded tells that the request is over a quota whose Over is Degrade.
func (p *Pass) Degraded() bool { return p.less != 0 }

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
	if p.limiter == nil || how == Spent && p.plan.simple && p.limiter.pressure == nil {
		p.ended = true
		return
	}
	s := p.limiter.shard(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if p.limiter.pressure != nil {
		p.limiter.pressure.endOf(p, how)
	}
	if how == Accepted && p.id != 0 && !p.free {
		s.repeats.accept(p.id)
	}
	if p.free {
		return
	}
	now := p.limiter.now()
	var by [maxQuotas]int64 // all of them first, because two of the words may share a count of what was given
	for i := range p.plan.rules {
		switch {
		case p.plan.rules[i].Unit == Concurrent:
			by[i] = 1
		case how == Void:
			by[i] = s.unpaid(p, i, now)
		}
	}
	for i := range p.plan.rules {
		s.lower(p, i, by[i])
		if p.plan.rules[i].Unit != Concurrent {
			s.given(p, i).add(by[i])
		}
	}
}

// unpaid returns what of the pass has not come back by itself: at least that is what the word would be lower by
// without the pass. So giving it back gives the tenant no more than it would have without the pass. Other passes that
// were given back since have lowered the word as well.
func (s *shard) unpaid(p *Pass, i int, now int64) int64 {
	return min(p.own[i], max(p.after[i]-s.given(p, i).since(p.given[i])-now, 0))
}

// given counts what was given back to the words of a part of the shard, in which p's is. Some words share a count, so
// that a pass may give back less than it could.
func (s *shard) given(p *Pass, i int) *total {
	return &s.back[p.plan.rules[i].key(p.who.hash)%uint64(len(s.back))]
}

// charge takes bytes that were not announced. They may be more than there are: then the tenant waits longer.
func (p *Pass) charge(bytes int64) {
	p.forBytes(func(s *shard, i int, r *rule, now int64) {
		cost := r.cost(bytes)
		word, shared := s.word(r, p.who.hash, now)
		if p.shared &^= 1 << i; shared {
			p.shared |= 1 << i
		}
		p.own[i] = min(s.unpaid(p, i, now)+cost, forever)
		p.given[i] = *s.given(p, i)
		p.after[i] = min(max(*word, now)+cost, now+forever)
		*word = p.after[i]
	})
}

// discharge gives back the bytes that were announced, but for those that came.
func (p *Pass) discharge(came int64) {
	p.forBytes(func(s *shard, i int, r *rule, now int64) {
		by := min(max(p.own[i]-r.cost(came), 0), s.unpaid(p, i, now))
		p.own[i] -= by
		s.lower(p, i, by)
		s.given(p, i).add(by)
	})
}

// forBytes does something with each quota of bytes that the pass has taken of, under the lock of its shard. It does
// nothing for a pass that is free, or has ended.
func (p *Pass) forBytes(do func(s *shard, i int, r *rule, now int64)) {
	s := p.limiter.shard(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.free || p.ended {
		return
	}
	now := p.limiter.now()
	for i := range p.plan.rules {
		if r := &p.plan.rules[i]; r.Unit == Bytes && p.less>>i&1 == 0 {
			do(s, i, r, now)
		}
	}
}

// word returns the word of a tenant's quota, and whether others share it. A newcomer gets one of its own, or where
// there is no room, the one that the shard's newcomers share. The pointer is good until the next word.
//
// A newcomer may have shared a moment ago, so its own word begins where the shared one is. Requests under way can't
// be told apart like that: as long as one is counted by the shared word, newcomers go on sharing.
func (s *shard) word(r *rule, who uint64, now int64) (word *int64, shared bool) {
	t, floor := s.table(r, now)
	common := &r.shared[shardOf(who)]
	own := t.place(r.key(who), floor, now)
	switch {
	case own == nil:
		return common, true
	case *own > floor || *common <= floor:
	case r.Unit == Concurrent:
		return common, true
	default:
		*own = *common
	}
	return own, false
}

// seen is word for those who take nothing: a newcomer gets none of its own.
func (s *shard) seen(r *rule, who uint64, now int64) *int64 {
	t, _ := s.table(r, now)
	if own := t.find(r.key(who)); own != nil {
		return own
	}
	return &r.shared[shardOf(who)]
}

func (s *shard) table(r *rule, now int64) (t *table, floor int64) {
	if r.Unit == Concurrent {
		return &s.holds, 0
	}
	return &s.rates, now
}

// take raises the words of all quotas, or of none. It returns the quotas that are used up, a bit for each, and how
// long the request has to wait for all of them.
func (s *shard) take(p *Pass, now int64) (violated uint8, wait int64) {
	p.at = now
	for i := range p.plan.rules {
		r := &p.plan.rules[i]
		word, shared := s.word(r, p.who.hash, now)
		if shared {
			p.shared |= 1 << i
		}
		if over := *word - now - r.burst - int64(r.Defer); r.Unit == Requests && over > 0 { // the quota was another one
			*word -= over
			s.given(p, i).add(over)
		}
		cost := r.cost(p.bytes)
		after, late, w := r.take(*word, now, cost)
		p.after[i], p.given[i], p.late = after, *s.given(p, i), max(p.late, late)
		switch {
		case w > 0 && r.Over == Degrade:
			p.less |= 1 << i
		case w > 0:
			violated, wait = violated|1<<i, max(wait, w)
		default:
			*word, p.own[i] = after, cost
		}
	}
	if violated == 0 {
		return 0, 0
	}
	p.late, p.less = 0, 0
	for i := range p.plan.rules {
		if violated>>i&1 == 0 {
			s.lower(p, i, p.own[i])
			p.after[i] -= p.own[i]
		}
	}
	return violated, wait
}

// follow defers the work of a repeat, which takes nothing, until after that of the request before it. It degrades a
// repeat that another request would be degraded in place of.
func (s *shard) follow(p *Pass, now int64) {
	for i := range p.plan.rules {
		r := &p.plan.rules[i]
		if r.Defer == 0 && r.Over != Degrade {
			continue
		}
		word := s.seen(r, p.who.hash, now)
		if r.Over == Degrade {
			if _, _, wait := r.take(*word, now, r.cost(p.bytes)); wait > 0 {
				p.less |= 1 << i
			}
			continue
		}
		p.late = max(p.late, *word-r.burst-now)
	}
}

// takeOne is take for one quota, without a pass.
func (s *shard) takeOne(r *rule, who party, now int64) bool {
	word, _ := s.word(r, who.hash, now)
	after, _, wait := r.take(*word, now, r.each)
	if wait == 0 {
		*word = after
	}
	return wait == 0
}

// lower gives back a part of what a pass has taken. A word that is no longer there has come back by itself.
func (s *shard) lower(p *Pass, i int, by int64) {
	r := &p.plan.rules[i]
	if p.shared>>i&1 != 0 {
		r.shared[shardOf(p.who.hash)] -= by
		return
	}
	t, _ := s.table(r, 0)
	if w := t.find(r.key(p.who.hash)); w != nil {
		*w -= by
	}
}
