package breaker

import "time"

const (
	rampMost  = 32          // the last step of the ramp
	rampAgain = time.Second // until a call that found no place in the ramp comes again
)

// ramp lets calls through after an outage: 2 at a time, and twice as many after as many that went well.
type ramp struct {
	since     time.Time // when it began
	limit     int       // calls at a time in this step
	running   int
	successes int // in this step
	failures  int // likewise
	failing   []sighting
}

// step begins a step.
func (r *ramp) step(limit int) {
	r.limit, r.successes, r.failures, r.failing = limit, 0, 0, r.failing[:0]
}

// enter takes a place for a call.
func (r *ramp) enter() bool {
	if r.running >= r.limit {
		return false
	}
	r.running++
	return true
}

// leave ends a call. It reports that several messages have failed: one alone can't open the breaker again.
func (r *ramp) leave(id string, told Outcome, now time.Time) (fails bool) {
	r.running--
	switch told {
	case Success, Decided:
		r.successes++
	case Failure:
		r.failures++
		r.failing = see(r.failing, id, now)
		return len(r.failing) == cap(r.failing) && r.failures >= r.successes
	}
	return false
}

// wasBack reports that the ramp goes on for so long, because calls are few, that a service which fails now was back.
func (r *ramp) wasBack(b Break, now time.Time) bool { return now.Sub(r.since) >= b.Window }
