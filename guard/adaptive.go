package guard

import (
	"math"
	"sync"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/guard/internal/breaker"
)

// Adaptive bounds the calls of one process at a time by what the service can usefully do, as that process measures it.
// The limit begins at 4, and then stays between Least and Most.
//
// Up to what a service does at a time, its calls take their own time. Beyond that they also wait in its queue. So every
// 8 seconds, or later if calls are long, the limit falls to a quarter for some ten calls' time, to measure a call's own
// time. Calls that are under way go on beside that. Between these probes the limit doubles at first, and then grows
// step by step, while calls take 1.25 times their own time, and 0.7/√limit times more. When calls take
// longer, the limit shrinks by a part of the excess. Such growth and decrease divides a service among many processes,
// and what a small limit has more lets it catch up (Kumar et al., "Swift: delay is simple and effective for congestion
// control in the datacenter", 2020).
//
// Processes must measure at the same time, or they take each other's calls for the service's own time. They begin at
// the same moments of their wall clocks. A clock that is wrong makes the measure of a service with many callers worse,
// and changes nothing else.
type Adaptive struct {
	Least int `json:"least,omitzero"` // at least 1. Defaults to 1.
	Most  int `json:"most,omitzero"`  // at most 10000. Defaults to 0: no such limit.
}

const (
	mostAdaptive  = 10000
	firstAdaptive = 4 // calls at a time, before anything is known

	roundTime  = 20 // times as long as a call takes by itself lasts a round
	probeTime  = 10 // likewise a probe
	leastRound = 100 * time.Millisecond
	roundCalls = 10 // that are done in a round, at least
	firstCalls = 40 // in the first round
	clip       = 10 // a call counts for so many times a call's own time at most

	probeEvery  = 8 * time.Second // or twice, four times, … as long
	probeRarely = 320             // times as long as a call takes by itself, at least
	probePart   = 4               // the limit falls to so small a part of it
	giveUp      = 10              // times as long as it should take, a probe is given up

	longerWeight  = 0.25 // of a probe that measures a longer time of a call
	shorterWeight = 0.5  // of one that measures a shorter time
	leastWeight   = 0.1  // of a round with the least limit, in which calls take too long

	queued   = 1.25     // times as long as by itself a call may take with a large limit
	queuedBy = 0.7      // by the root of the limit it may be more
	cut      = 0.8      // of the part of a call's time that is too long, the limit is lowered by so much
	mostCut  = 0.5      // and to this part of it at least
	growth   = 1.0 / 16 // a part of the limit, by which it grows, or by 1
)

// adaptive finds the limit of [Adaptive]. It measures the times of calls in rounds of one limit each.
type adaptive struct {
	slots *limit.Slots                // of this process
	tell  func()                      // that the limit has changed
	after func(time.Duration, func()) // calls a function after a time

	mu       sync.Mutex
	bounds   Adaptive
	limit    float64 // between probes
	force    int     // the limit in force
	starting bool    // the limit doubles
	probing  bool
	probes   int
	probed   time.Time // by the wall clock, when the last probe began, or the limit was made
	base     float64   // seconds of a call without a queue; 0: not known
	busy     int       // calls under way
	before   int       // of them, since before the probe
	begun    time.Time // when the probe began, or the round after it
	round
}

// round is what is measured at one limit.
type round struct {
	since   time.Time
	skip    int // calls that end before it begins: others were under way with them
	done    int
	sum     float64 // of the seconds of the calls that were done
	pressed bool    // the limit was reached
}

func newAdaptive(bounds Adaptive, now time.Time, tell func()) (a *adaptive, err error) {
	a = &adaptive{tell: tell, after: after, bounds: bounds, limit: firstAdaptive, starting: true, probed: now.Round(0), round: round{since: now}}
	a.force = a.within(a.limit)
	a.slots, err = limit.LocalSlots(a.force)
	return a, err
}

func after(d time.Duration, f func()) { time.AfterFunc(d, f) }

// within returns a limit within the bounds.
func (a *adaptive) within(limit float64) int {
	return min(max(int(limit), a.bounds.Least), a.bounds.Most)
}

// set changes the bounds. All that was measured holds.
func (a *adaptive) set(bounds Adaptive) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bounds != bounds {
		a.bounds = bounds
		a.allow(a.limit, time.Now())
	}
}

// adapt makes the part of an adaptive limit, or changes its bounds.
func (q *quota) adapt(made *parts, bounds Adaptive) (err error) {
	switch {
	case bounds.Most == 0:
	case made.adaptive != nil:
		made.adaptive.set(bounds)
	default:
		made.adaptive, err = newAdaptive(bounds, time.Now(), q.tell)
	}
	return err
}

// press notes that a consumer has as many messages in hand as it may, and how many all of them may have.
func (q *quota) press(all int) {
	if p := q.parts.Load(); p != nil && p.adaptive != nil {
		p.adaptive.press(all)
	}
}

// allowed returns the limit in force.
func (a *adaptive) allowed() int {
	if a == nil {
		return math.MaxInt
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.places()
}

// places returns how many calls may be under way. Those from before a probe are let go on beside it: they may be long.
func (a *adaptive) places() int { return min(a.force+a.before, a.within(a.limit)) }

// press notes that a consumer has as many messages in hand as it may: so many as the limit, or fewer by another one.
func (a *adaptive) press(most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pressed = a.pressed || most >= a.force
}

// begin notes that a call begins.
func (a *adaptive) begin(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probe(now)
	a.busy++
	a.pressed = a.pressed || a.busy >= a.force
}

// end notes that a call has ended. Calls that weren't done say nothing of the time that they need. away says that the
// breaker wasn't closed: then the round begins anew.
func (a *adaptive) end(began, now time.Time, told breaker.Outcome, away bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probe(now)
	a.busy--
	if a.before > 0 && began.Before(a.begun) {
		a.before--
		a.put()
	}
	switch {
	case away:
		a.restart(now)
	case a.skip > 0:
		if a.skip--; a.skip == 0 {
			a.restart(now)
		}
	case told == breaker.Success:
		a.done++
		took := now.Sub(began).Seconds()
		if a.base > 0 {
			took = min(took, clip*a.base)
		}
		a.sum += took
		if a.complete(now) {
			a.finish(now)
		}
	}
}

// restart begins the round anew.
func (a *adaptive) restart(now time.Time) { a.round = round{since: now} }

// probe begins a probe if it is time for one.
func (a *adaptive) probe(now time.Time) {
	every := probeEvery
	for a.probes > 0 && every.Seconds() < probeRarely*a.base {
		every *= 2
	}
	wall := now.Round(0)
	if a.base == 0 || a.probing || !wall.Truncate(every).After(a.probed) && !a.probed.After(wall) {
		return
	}
	a.probing, a.probed = true, wall
	a.allow(a.limit, now)
	long := max(leastRound, time.Duration(probeTime*a.base*float64(time.Second)))
	a.after(giveUp*long, func() { a.abandon(wall, now.Add(giveUp*long)) })
}

// abandon ends a probe that goes on, because its calls are far longer than others, or hang.
func (a *adaptive) abandon(probed, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.probing && a.probed.Equal(probed) {
		a.probing = false
		a.allow(a.limit, now)
	}
}

// complete reports that a round says how long a call takes.
func (a *adaptive) complete(now time.Time) bool {
	calls, long := roundCalls, roundTime*a.base
	if a.probing {
		long = probeTime * a.base
	}
	if a.base == 0 {
		calls = firstCalls
	}
	if a.probes == 0 { // the process may have stood still in its first calls
		long = min(long, probeEvery.Seconds())
	}
	return a.done >= calls && now.Sub(a.since) >= max(leastRound, time.Duration(long*float64(time.Second)))
}

// finish ends a round, and begins the next one.
func (a *adaptive) finish(now time.Time) {
	took := max(a.sum/float64(a.done), 1e-9) // a clock may be coarse
	limit, pressed := a.limit, a.pressed
	target := a.base * (queued + queuedBy/math.Sqrt(limit))
	switch {
	case a.probing:
		a.probing = false
		a.learn(took)
	case a.base == 0:
		a.base = took
	case !pressed: // the limit didn't make the time
	case took > target && a.force == a.bounds.Least: // there is no queue, unless others make it
		a.base += leastWeight * (took - a.base)
	case took > target:
		a.starting = false
		limit *= max(mostCut, 1-cut*(took-target)/took)
		if a.probes == 0 { // the time of a call is hardly known yet
			limit = max(limit, firstAdaptive)
		}
	case a.starting:
		limit *= 2
	default:
		limit += max(1, growth*limit)
	}
	a.allow(limit, now)
}

// learn takes the time of a call from a probe.
func (a *adaptive) learn(took float64) {
	switch {
	case a.probes == 0: // other calls may have been under way before
		a.base = took
	case took > a.base:
		a.base += longerWeight * (took - a.base)
	default:
		a.base += shorterWeight * (took - a.base)
	}
	a.probes++
}

// allow begins a round with a limit, or with a part of it in a probe.
func (a *adaptive) allow(limit float64, now time.Time) {
	a.limit = min(max(limit, float64(a.bounds.Least)), float64(a.bounds.Most))
	force := a.within(a.limit)
	a.before, a.begun = 0, now
	if a.probing {
		force, a.before = a.within(a.limit/probePart), a.busy
	}
	a.restart(now)
	switch {
	case a.probing:
		a.skip = a.busy + force // calls of the probe, too, that begin beside those of before
	case force != a.force:
		a.skip = a.busy
	}
	a.force = force
	a.put()
}

// put puts the limit in force.
func (a *adaptive) put() {
	_ = a.slots.Set(a.places()) // it is in the bounds of package limit
	a.tell()
}
