package throttle

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A Unit says what a quota counts.
type Unit int

// These are the units of the draft's registry.
const (
	Requests   Unit = iota // requests
	Bytes                  // bytes of requests' bodies
	Concurrent             // requests that are under way
)

// Over says what becomes of a request that is over a quota.
type Over int

const (
	Reject  Over = iota // it is refused, or deferred by Quota.Defer
	Degrade             // it is let through, and its handler learns by [Degraded] to do less
)

// maxQuotas bounds the quotas of one tenant.
const maxQuotas = 4

const (
	maxAmount = 999_999_999_999_999 // of an integer in a header field, by RFC 9651
	maxPer    = 366 * 24 * time.Hour
	maxDefer  = 24 * time.Hour
)

// A Quota is what one tenant may ask for. A quota of Requests or Bytes comes back evenly: Amount in each Per, and at
// most Burst at once. So in any time d a tenant gets Burst + Amount × d/Per at most, and of Bytes one body more.
type Quota struct {
	// Name is shown to clients and in metrics: 1 to 40 lower-case letters, digits and hyphens, a letter first. The name
	// backlog is taken. Required.
	Name string

	// Amount is how much a tenant gets in each Per, or has under way at a time: 1 to 10^15-1, and at most a request each
	// nanosecond. Required.
	Amount int64

	// Per is a time in whole seconds, up to 366 days. A process that starts knows nothing of what was used before, however
	// long Per is. Defaults to a second. A quota of Concurrent has none.
	Per time.Duration

	// Burst is how much can be had at once after a pause. A body with more bytes is let through when the whole Burst is
	// there, and the tenant then waits longer. At most Amount. Defaults to Amount. A quota of Concurrent has none.
	Burst int64

	// Unit is what is counted. Defaults to Requests.
	Unit Unit

	// Defer lets a request through whose quota comes back within that time, and has its work wait until then: see
	// [Deferred]. At most 24 hours. Defaults to 0: such a request is refused. A quota of Concurrent has none.
	Defer time.Duration

	// Over is what becomes of a request that is over the quota. One that is degraded takes nothing of the quota. Defaults
	// to Reject. A quota with Defer, and one of Concurrent, can't degrade.
	Over Over
}

var quotaName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// withDefaults returns a complete copy, or all that is wrong with it.
func (q Quota) withDefaults() (Quota, error) {
	var faults []error
	wrong := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: quota %s: "+format, append([]any{storage.ErrInvalid, storage.Quote(q.Name)}, args...)...))
	}
	if !quotaName.MatchString(q.Name) || q.Name == backlogName {
		wrong("want a Name of 1 to 40 lower-case letters, digits and hyphens, a letter first, and not %s", backlogName)
	}
	if q.Amount < 1 || q.Amount > maxAmount {
		wrong("Amount is %d; want 1 to %d", q.Amount, int64(maxAmount))
	}
	if q.Unit < Requests || q.Unit > Concurrent {
		wrong("Unit is %d; want Requests, Bytes or Concurrent", q.Unit)
	}
	if q.Defer < 0 || q.Defer > maxDefer {
		wrong("Defer is %v; want 0 to %v", q.Defer, maxDefer)
	}
	if q.Over < Reject || q.Over > Degrade {
		wrong("Over is %d; want Reject or Degrade", q.Over)
	}
	if q.Over == Degrade && q.Defer != 0 {
		wrong("Over is Degrade, with Defer %v; a quota that degrades has none", q.Defer)
	}
	if q.Over == Degrade && q.Unit == Concurrent {
		wrong("Over is Degrade; a quota of Concurrent can't degrade")
	}
	if q.Unit == Concurrent {
		if q.Per != 0 || q.Burst != 0 || q.Defer != 0 {
			wrong("Per is %v, Burst %d and Defer %v; a quota of Concurrent has none of them", q.Per, q.Burst, q.Defer)
		}
		return q, together(faults...)
	}
	q.Per, q.Burst = cmp.Or(q.Per, time.Second), cmp.Or(q.Burst, q.Amount)
	if q.Per < time.Second || q.Per > maxPer || q.Per%time.Second != 0 {
		wrong("Per is %v; want whole seconds, up to %v", q.Per, maxPer)
	} else if q.Unit == Requests && q.Amount > int64(q.Per) {
		wrong("Amount is %d in %v; want a request each nanosecond at most", q.Amount, q.Per)
	}
	if q.Amount > 0 && (q.Burst < 1 || q.Burst > q.Amount) { // else Amount is at fault
		wrong("Burst is %d; want 1 to Amount", q.Burst)
	}
	return q, together(faults...)
}

// together makes one error of faults, on one line, because settings and logs show it on one.
func together(faults ...error) error {
	var texts []string
	for _, fault := range faults {
		if fault != nil {
			texts = append(texts, strings.TrimPrefix(fault.Error(), storage.ErrInvalid.Error()+": "))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", storage.ErrInvalid, strings.Join(texts, "; "))
}

// A rule is a quota that a rate limiter applies.
type rule struct {
	Quota
	salt   uint64 // tells the words of one tenant's quotas apart
	each   int64  // nanoseconds that a request takes to come back
	burst  int64  // nanoseconds that Burst takes to come back
	policy string // the quota as an item of RateLimit-Policy, without the tenant
	shared *shared
	count  func() // counts a refusal
}

// A shared word, one in each shard, is for newcomers that find no place of their own.
type shared [shards]int64

// identity is what makes a quota the same one after a change of its amount.
func (q Quota) identity() string { return fmt.Sprint(q.Name, " ", int64(q.Per), " ", int(q.Unit)) }

func newRule(q Quota, seed maphash.Seed, before map[string]*shared) rule {
	r := rule{Quota: q, salt: maphash.String(seed, q.identity()), shared: before[q.identity()]}
	if r.shared == nil {
		r.shared = &shared{}
	}
	switch q.Unit {
	case Requests:
		r.each = (int64(q.Per) + q.Amount - 1) / q.Amount
		r.burst = r.each * q.Burst
	case Bytes:
		r.burst = mulDiv(q.Burst, int64(q.Per), q.Amount)
	}
	r.policy = `"` + q.Name + `";q=` + strconv.FormatInt(q.Amount, 10)
	switch q.Unit {
	case Bytes:
		r.policy += `;qu="content-bytes"`
	case Concurrent:
		r.policy += `;qu="concurrent-requests"`
	}
	if q.Unit != Concurrent {
		r.policy += ";w=" + strconv.FormatInt(int64(q.Per/time.Second), 10)
	}
	return r
}

// forever bounds all words, so that their sums can't overflow: some 73 years.
const forever = 1 << 61

// mulDiv returns a×b/c, rounded up, forever at most. None may be negative, and c not 0.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	if hi += carry; hi >= uint64(c) {
		return forever
	}
	n, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(n, forever))
}

// cost returns by how much a request raises the word.
func (r *rule) cost(bytes int64) int64 {
	switch r.Unit {
	case Requests:
		return r.each
	case Bytes:
		return mulDiv(bytes, int64(r.Per), r.Amount)
	default:
		return 1
	}
}

// take returns the word after a request of some cost, and for how long its work is deferred. Or it returns how long the
// request has to wait; of a concurrent quota nobody knows that, and the wait is 1.
func (r *rule) take(word, now, cost int64) (after, deferred, wait int64) {
	if r.Unit == Concurrent {
		if word >= r.Amount {
			return word, 0, 1
		}
		return word + 1, 0, 0
	}
	word = max(word, now)
	late := max(0, word+min(cost, r.burst)-r.burst-now)
	if late > int64(r.Defer) {
		return word, 0, late - int64(r.Defer)
	}
	return min(word+cost, now+forever), late, 0
}

// key is where a tenant's word is.
func (r *rule) key(who uint64) uint64 { return max(1, who^r.salt) } // 0 is no key

// left returns how many units are left, and the seconds until there are more, where none are.
func (r *rule) left(word, now int64) (units, seconds int64) {
	switch r.Unit {
	case Concurrent:
		return max(0, r.Amount-word), 0
	case Requests:
		units = max(0, r.burst-max(word-now, 0)) / r.each
	default:
		if free := r.burst - max(word-now, 0); free > 0 {
			hi, lo := bits.Mul64(uint64(free), uint64(r.Amount))
			n, _ := bits.Div64(hi, lo, uint64(r.Per)) // Amount at most, because free ≤ Per
			units = int64(n)
		}
	}
	if units > 0 {
		return units, 0
	}
	return 0, inSeconds(word + max(r.cost(1), 1) - r.burst - now)
}

// inSeconds rounds nanoseconds up to whole seconds, at least 1.
func inSeconds(ns int64) int64 {
	return max(1, (ns+int64(time.Second)-1)/int64(time.Second))
}
