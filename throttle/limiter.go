package throttle

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// remembered is how many accepted IDs a rate limiter remembers.
const remembered = 1 << 16

// These bound how often a rate limiter asks Config.Known for one tenant, and for how long.
const (
	knownTimes   = 10
	knownPer     = 10 * time.Second
	knownTimeout = 5 * time.Second
)

// A RateLimiter lets requests through, or refuses them. Its methods may be called concurrently.
type RateLimiter struct {
	cfg      Config
	counts   counters
	seeds    [4]maphash.Seed // of tenants, addresses, IDs and quotas
	plans    atomic.Pointer[plans]
	look     rule // bounds calls of Config.Known
	memory   memory
	complain atomic.Int64 // when to log a failure of Config.Known again
}

// NewRateLimiter returns a rate limiter. The name, in lower-case letters, digits and hyphens, stands in metrics, logs
// and errors. An error says all that is wrong with the name and cfg.
func NewRateLimiter(name string, cfg Config) (*RateLimiter, error) {
	d := &RateLimiter{memory: memory{name: name, start: time.Now()}}
	for i := range d.seeds {
		d.seeds[i] = maphash.MakeSeed()
	}
	cfg, err := cfg.withDefaults(name)
	if err == nil {
		if d.counts, err = newCounters(cfg.Metrics, name); err != nil {
			return nil, fmt.Errorf("throttle: rate limiter %s: %w", name, err)
		}
	}
	d.cfg, d.memory.key = cfg, cfg.Key
	if err = together(err, d.Set(cfg.Quotas, cfg.Plans)); err != nil {
		return nil, fmt.Errorf("throttle: rate limiter %s: %w", name, err)
	}
	d.look = newRule(Quota{Name: "?known", Amount: knownTimes, Per: knownPer, Burst: knownTimes}, d.seeds[3], nil)
	for i := range d.memory.shards {
		s := &d.memory.shards[i]
		s.rates.most, s.holds.most = cfg.MaxKeys/shards, cfg.MaxKeys/shards
		s.repeats.most = remembered / shards
	}
	if cfg.Backlog.Queue != nil {
		d.memory.pressure = newPressure(cfg.Backlog, cfg.Logger, d.memory.now)
	}
	return d, nil
}

// Set replaces the quotas, as those in [Config], for the requests that come. The use of a quota so far counts on if
// the new one has the same name, unit and time. On an error, which says all that is wrong, nothing changes.
func (d *RateLimiter) Set(quotas []Quota, named map[string][]Quota) error {
	var fault error
	if len(named) > 0 && d.cfg.Plan == nil {
		fault = fmt.Errorf("%w: there are Plans, and Config.Plan is nil; want the plan of a tenant", storage.ErrInvalid)
	}
	var before map[string]*shared
	if p := d.plans.Load(); p != nil {
		before = p.shared
	}
	p, err := newPlans(quotas, named, d.seeds[3], before, func(quota string) func() {
		if d.counts.refused == nil {
			return nil
		}
		return d.counts.refused.WithLabelValues(quota).Inc
	})
	if err = together(fault, err); err != nil {
		return err
	}
	d.plans.Store(p)
	return nil
}

// A Call is a request as a rate limiter sees it.
type Call struct {
	Tenant string // that it comes from; see Config.Tenant
	ID     string // which a repeat has as well; may be empty
	Bytes  int64  // of its body; negative counts as 0
}

// Admit asks for the quotas of a request. It returns a Pass, which must be ended, or a *[Refusal]. It takes what is
// asked for of all quotas or of none. Admit is for handlers that know the tenant only after they have read the
// request. ctx is for Config.Known.
func (d *RateLimiter) Admit(ctx context.Context, c Call) (p Pass, err error) {
	if x := d.admit(ctx, &p, d.tenant(c.Tenant), c.ID, c.Bytes); x != nil {
		return Pass{}, x
	}
	return p, nil
}

func (d *RateLimiter) tenant(name string) party {
	return party{hash: maphash.String(d.seeds[0], name), name: name}
}

func (d *RateLimiter) address(name string) party {
	return party{hash: maphash.String(d.seeds[1], name), name: name, address: true}
}

func (d *RateLimiter) planOf(p party) *plan {
	all := d.plans.Load()
	if len(all.named) == 0 {
		return all.all
	}
	if p.address {
		return all.of(d.cfg.Plan(""))
	}
	return all.of(d.cfg.Plan(p.name))
}

// admit makes a pass of a zero Pass, or says why not.
func (d *RateLimiter) admit(ctx context.Context, p *Pass, who party, id string, bytes int64) *Refusal {
	p.memory, p.claim.plan, p.claim.who, p.claim.bytes = &d.memory, d.planOf(who), who, max(bytes, 0)
	if id != "" && len(id) <= maxID {
		p.id = max(1, maphash.String(d.seeds[2], id)^who.hash)
	}
	x := d.ask(p)
	if x != nil && d.knows(ctx, p, id) {
		p.free, x = true, nil
	}
	switch {
	case x != nil:
		d.counts.refuse(x)
	case p.free:
		if d.memory.pressure != nil {
			d.memory.pressure.begun.Add(1)
		}
		d.counts.repeats.Inc()
	default:
		d.counts.accepted.Inc()
	}
	if x == nil && p.claim.less != 0 {
		d.counts.degraded.Inc()
	}
	return x
}

// ask takes all that a request asks for, or says why not.
func (d *RateLimiter) ask(p *Pass) *Refusal {
	s := d.memory.shard(p.claim.who)
	if p.id != 0 {
		s.mu.Lock()
		p.known, p.free = s.repeats.repeat(p.id)
		if p.free {
			d.follow(s, p)
		}
		s.mu.Unlock()
		if p.free {
			return nil
		}
	}
	var late time.Duration
	if d.memory.pressure != nil {
		var wait time.Duration
		if wait, late = d.memory.pressure.begin(); wait > 0 {
			return &Refusal{memory: &d.memory, claim: p.claim, wait: wait}
		}
		p.claim.late = int64(late)
	}
	s.mu.Lock()
	violated, wait := s.take(&p.claim, d.memory.now())
	s.mu.Unlock()
	if violated == 0 {
		if late > 0 {
			p.ahead = d.memory.pressure.reserve(late)
		}
		return nil
	}
	if d.memory.pressure != nil {
		d.memory.pressure.end(false)
	}
	return &Refusal{memory: &d.memory, claim: p.claim, violated: violated, wait: time.Duration(wait)}
}

// follow makes the work of a repeat wait for that of the request before it. s.mu is held.
func (d *RateLimiter) follow(s *shard, p *Pass) {
	now := d.memory.now()
	s.follow(&p.claim, now)
	if d.memory.pressure != nil {
		p.claim.late = max(p.claim.late, d.memory.pressure.later.follow(now))
	}
}

// knows asks Config.Known about the ID of a request that is about to be refused.
func (d *RateLimiter) knows(ctx context.Context, p *Pass, id string) bool {
	if d.cfg.Known == nil || p.id == 0 || p.known {
		return false // the free repeats of an ID that is known are used up
	}
	s := d.memory.shard(p.claim.who)
	s.mu.Lock()
	allowed := s.takeOne(&d.look, p.claim.who, d.memory.now())
	s.mu.Unlock()
	if !allowed {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	tenant := p.claim.who.name
	if p.claim.who.address {
		tenant = ""
	}
	known, err := d.cfg.Known(ctx, tenant, id)
	if err != nil {
		if now, next := d.memory.now(), d.complain.Load(); now >= next && d.complain.CompareAndSwap(next, now+int64(logEvery)) {
			d.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "Config.Known fails, so repeats may be refused", slog.Any("error", err))
		}
		return false
	}
	if known {
		s.mu.Lock()
		s.repeats.set(p.id, 1)
		d.follow(s, p)
		s.mu.Unlock()
	}
	return known
}
