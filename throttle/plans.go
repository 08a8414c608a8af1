package throttle

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/storage"
)

// A plan is the quotas of some tenants.
type plan struct {
	rules  []rule
	bytes  bool // whether a rule counts bytes
	simple bool // whether all rules count requests, so that nothing happens when one ends
}

// plans are all that a rate limiter has, replaced as a whole.
type plans struct {
	all    *plan
	named  map[string]*plan
	shared map[string]*shared // by Quota.identity
}

func (p *plans) of(name string) *plan {
	if one, ok := p.named[name]; ok {
		return one
	}
	return p.all
}

// CheckQuotas says what is wrong with the quotas of one tenant, as [NewRateLimiter] and [RateLimiter.Set] would: for a
// program's settings that hold them.
func CheckQuotas(quotas []Quota) error {
	_, err := newPlans(quotas, nil, maphash.MakeSeed(), nil, func(string) func() { return func() {} })
	return err
}

// newPlans reports all faults of quotas at once. It keeps the shared words of the plans before.
func newPlans(quotas []Quota, named map[string][]Quota, seed maphash.Seed, before map[string]*shared, counts func(quota string) func()) (*plans, error) {
	p := &plans{named: map[string]*plan{}, shared: map[string]*shared{}}
	var faults []error
	build := func(name string, quotas []Quota) *plan {
		one := &plan{simple: true}
		if len(quotas) > maxQuotas {
			faults = append(faults, fmt.Errorf("%w: there are %d quotas for one tenant; want %d at most", storage.ErrInvalid, len(quotas), maxQuotas))
		}
		seen := map[string]bool{}
		for _, q := range quotas {
			q, err := q.withDefaults()
			if err == nil && seen[q.Name] {
				err = fmt.Errorf("%w: there are two quotas %s for one tenant", storage.ErrInvalid, storage.Quote(q.Name))
			}
			if err != nil {
				faults = append(faults, err)
				continue
			}
			seen[q.Name] = true
			r := newRule(q, seed, before)
			r.count = counts(q.Name)
			if there := p.shared[q.identity()]; there != nil {
				r.shared = there
			}
			p.shared[q.identity()] = r.shared
			one.rules, one.bytes, one.simple = append(one.rules, r), one.bytes || q.Unit == Bytes, one.simple && q.Unit == Requests
		}
		return one
	}
	p.all = build("", quotas)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		p.named[name] = build(name, named[name])
	}
	return p, together(faults...)
}
