package row

import "time"

// outage is for how long steps have failed.
type outage struct {
	failed time.Time // when the last step began, if it failed; zero: it didn't
	away   time.Duration
}

// fail notes that a step has failed which began at a time. A process that stood still knows nothing of that time. So
// steps that are a TTL apart begin anew, and two of them never are a while.
func (o *outage) fail(began time.Time, ttl time.Duration) {
	if apart := began.Sub(o.failed); apart < ttl {
		o.away += min(apart, ttl/6)
	} else {
		o.away = 0
	}
	o.failed = began
}

// lasts reports that steps have failed for a while: the store is away.
func (o *outage) lasts(ttl time.Duration) bool { return o.away >= ttl/3 }
