package throttle

// A party is a tenant or an address.
type party struct {
	hash    uint64
	name    string
	address bool
}

// A claim is what a request asks for of its quotas, and what it has taken. It is used under the lock of its shard.
type claim struct {
	plan   *plan
	who    party
	at     int64
	bytes  int64
	after  [maxQuotas]int64 // the words since this request's last charge
	own    [maxQuotas]int64 // what this request has raised them by
	given  [maxQuotas]total // what had been given back in the words' parts of the shard, at that charge
	late   int64            // nanoseconds after at, for which its work is deferred
	shared uint8            // a bit for each word that newcomers share
	less   uint8            // a bit for each quota that it is over, and that degrades
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
func (s *shard) take(c *claim, now int64) (violated uint8, wait int64) {
	c.at = now
	for i := range c.plan.rules {
		r := &c.plan.rules[i]
		word, shared := s.word(r, c.who.hash, now)
		if shared {
			c.shared |= 1 << i
		}
		if over := *word - now - r.burst - int64(r.Defer); r.Unit == Requests && over > 0 { // the quota was another one
			*word -= over
			s.given(c, i).add(over)
		}
		cost := r.cost(c.bytes)
		after, late, w := r.take(*word, now, cost)
		c.after[i], c.given[i], c.late = after, *s.given(c, i), max(c.late, late)
		switch {
		case w > 0 && r.Over == Degrade:
			c.less |= 1 << i
		case w > 0:
			violated, wait = violated|1<<i, max(wait, w)
		default:
			*word, c.own[i] = after, cost
		}
	}
	if violated == 0 {
		return 0, 0
	}
	c.late, c.less = 0, 0
	for i := range c.plan.rules {
		if violated>>i&1 == 0 {
			s.lower(c, i, c.own[i])
			c.after[i] -= c.own[i]
		}
	}
	return violated, wait
}

// follow defers the work of a repeat, which takes nothing, until after that of the request before it. It degrades a
// repeat that another request would be degraded in place of.
func (s *shard) follow(c *claim, now int64) {
	for i := range c.plan.rules {
		r := &c.plan.rules[i]
		if r.Defer == 0 && r.Over != Degrade {
			continue
		}
		word := s.seen(r, c.who.hash, now)
		if r.Over == Degrade {
			if _, _, wait := r.take(*word, now, r.cost(c.bytes)); wait > 0 {
				c.less |= 1 << i
			}
			continue
		}
		c.late = max(c.late, *word-r.burst-now)
	}
}

// takeOne is take for one quota, without a claim.
func (s *shard) takeOne(r *rule, who party, now int64) bool {
	word, _ := s.word(r, who.hash, now)
	after, _, wait := r.take(*word, now, r.each)
	if wait == 0 {
		*word = after
	}
	return wait == 0
}

// lower gives back a part of what a claim has taken. A word that is no longer there has come back by itself.
func (s *shard) lower(c *claim, i int, by int64) {
	r := &c.plan.rules[i]
	if c.shared>>i&1 != 0 {
		r.shared[shardOf(c.who.hash)] -= by
		return
	}
	t, _ := s.table(r, 0)
	if w := t.find(r.key(c.who.hash)); w != nil {
		*w -= by
	}
}

// settle ends a claim. A request under way ends, and one that is void gives back what has not come back by itself.
func (s *shard) settle(c *claim, void bool, now int64) {
	var by [maxQuotas]int64 // all of them first, because two of the words may share a count of what was given
	for i := range c.plan.rules {
		switch {
		case c.plan.rules[i].Unit == Concurrent:
			by[i] = 1
		case void:
			by[i] = s.unpaid(c, i, now)
		}
	}
	for i := range c.plan.rules {
		s.lower(c, i, by[i])
		if c.plan.rules[i].Unit != Concurrent {
			s.given(c, i).add(by[i])
		}
	}
}

// charge takes bytes of a quota that were not announced.
func (s *shard) charge(c *claim, i int, bytes, now int64) {
	r := &c.plan.rules[i]
	cost := r.cost(bytes)
	word, shared := s.word(r, c.who.hash, now)
	if c.shared &^= 1 << i; shared {
		c.shared |= 1 << i
	}
	c.own[i] = min(s.unpaid(c, i, now)+cost, forever)
	c.given[i] = *s.given(c, i)
	c.after[i] = min(max(*word, now)+cost, now+forever)
	*word = c.after[i]
}

// discharge gives back the bytes of a quota that were announced, but for those that came.
func (s *shard) discharge(c *claim, i int, came, now int64) {
	by := min(max(c.own[i]-c.plan.rules[i].cost(came), 0), s.unpaid(c, i, now))
	c.own[i] -= by
	s.lower(c, i, by)
	s.given(c, i).add(by)
}

// unpaid returns what of the claim has not come back by itself: at least that is what the word would be lower by
// without the claim. So giving it back gives the tenant no more than it would have without the claim. Other claims that
// were given back since have lowered the word as well.
func (s *shard) unpaid(c *claim, i int, now int64) int64 {
	return min(c.own[i], max(c.after[i]-s.given(c, i).since(c.given[i])-now, 0))
}

// given counts what was given back to the words of a part of the shard, in which c's is. Some words share a count, so
// that a claim may give back less than it could.
func (s *shard) given(c *claim, i int) *total {
	return &s.back[c.plan.rules[i].key(c.who.hash)%uint64(len(s.back))]
}
