package guard

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-go/millrace/worker"
)

// state is that of a breaker:
//
//	closed ─ too many fail ─▶ open ─ time ─▶ due ─ a call begins ─▶ probing ─ done ─▶ ramping ─ all goes well ─▶ closed
//	                           ▲              ◀─ the call tells nothing ─ │              │
//	                           └──────────────── it fails; longer ────────┴─ several fail ┘
//
// A breaker is shut while it is open or probing. In both a timer runs, which leaves the state whatever else happens.
type state int

const (
	closed  state = iota
	open          // no call is let through
	due           // the next call is the probe
	probing       // one call is under way
	ramping       // limit calls at a time
)

// shut reports that no call is let through.
func (s state) shut() bool { return s == open || s == probing }

const (
	rampMost    = 32                    // the last step of the ramp
	rampAgain   = time.Second           // until a call that found no place in the ramp comes again
	enoughMine  = 3                     // probes in a row that have decided on their messages themselves
	placeGrace  = 10 * time.Second      // for a call that goes on after its Timeout, before its place is free
	placeTime   = 5 * time.Minute       // of a call without Timeout
	settling    = 15 * time.Millisecond // within which workers see that a breaker is shut: they ask each 10 ms
	spread      = 0.2                   // of the time until a probe
	longerAtMax = 16                    // doublings; no time doubles more often
)

// outcome is what a call tells about the service.
type outcome int

const (
	neutral outcome = iota
	success
	failure
	throttled
	decided // the call has decided on its message itself: the service may have answered
)

// permit is the right to make one call.
type permit struct {
	id    string
	epoch uint64
	place *place // where calls are counted: as a probe, and in the ramp
	seat  seat   // in the limits
	again bool   // the call was made before, in this delivery
}

// place is taken by a call until it ends, or until time runs out.
type place struct {
	timer *time.Timer
	over  bool // under the breaker's mutex
}

// breaker decides which calls are made. All of it is one process's own. Its state changes by move alone, so that a
// state which many processes share can stand behind the same calls.
type breaker struct {
	cfg *Config
	say func(event)

	mu       sync.Mutex
	when     Break
	probe    Probe
	state    state
	epoch    uint64 // grows with each change of state; a call of an older epoch doesn't change the state
	news     news   // of the limits
	timer    *time.Timer
	watch    *time.Timer // opens a breaker that its timer doesn't
	window   window      // of calls while it is closed
	since    time.Time   // when it opened
	ramped   time.Time   // when the last ramp began
	shut     time.Time   // when it was shut last
	until    time.Time   // when the open state, or the probe, is over
	asked    time.Time   // until when the service asks to wait, as far as it is known
	owed     time.Time   // until when it has asked this process's own calls to
	openings int         // since it was closed
	probed   uint64      // epoch in which the last probe found it due
	mine     bool        // it has opened by this process's own calls
	decided  int         // probes in a row that have decided on their messages themselves
	last     string      // the text of the last error of a call

	limit, running, well, ill int // of this step of the ramp
	failed                    []sighting

	messages messages
	heard    []event // to be said when the mutex is free
}

func newBreaker(cfg *Config, say func(event)) *breaker {
	return &breaker{
		cfg: cfg, say: say, when: cfg.Break, probe: cfg.Probe, window: newWindow(cfg.Break),
		failed: make([]sighting, 0, 2), messages: newMessages(),
	}
}

// unlock frees the mutex, and says what has happened.
func (b *breaker) unlock() {
	heard := b.heard
	b.heard = nil
	b.mu.Unlock()
	for _, e := range heard {
		b.say(e)
	}
}

// limits returns what is in force for a worker, and a channel that is closed when it changes.
func (b *breaker) limits() (worker.Limits, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := b.news.wait()
	switch b.state {
	case open, probing:
		return worker.Limits{Pause: true}, changed
	case due:
		return worker.Limits{Concurrency: 1, MaxInHand: 1}, changed
	case ramping:
		return worker.Limits{Concurrency: b.limit, MaxInHand: b.limit}, changed
	}
	return worker.Limits{}, changed
}

// begin lets a call through, or returns how long it must wait. Each permit is ended once.
func (b *breaker) begin(id string) (p permit, wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.unlock()
	switch b.state {
	case open:
		return permit{}, max(time.Until(b.until), 0), false
	case probing: // the probe may end at once; if it fails, the next one comes after this time
		return permit{}, min(b.pace(), max(time.Until(b.until), 0)), false
	case due:
		b.probed = b.epoch
		b.move(probing)
		b.until = time.Now().Add(b.cfg.place())
		watchOver(b)
	case ramping:
		if b.running >= b.limit {
			return permit{}, rampAgain, false
		}
		b.running++
	case closed:
		return permit{id: id, epoch: b.epoch}, 0, true
	}
	return b.seat(id), 0, true
}

// seat returns a permit with a place. The timer frees it if the call doesn't.
func (b *breaker) seat(id string) permit {
	p := permit{id: id, epoch: b.epoch, place: &place{}}
	p.place.timer = time.AfterFunc(b.cfg.place(), func() { b.expire(p) })
	return p
}

// expire frees the place of a call that goes on for too long. The call counts as one that failed.
func (b *breaker) expire(p permit) {
	b.mu.Lock()
	defer b.unlock()
	if p.place.over {
		return
	}
	p.place.over = true
	b.heard = append(b.heard, event{kind: overdue, id: p.id, took: b.cfg.place()})
	b.count(p, failure, time.Now())
}

// end ends a permit by what its call tells. after is how long a service asks to wait, or 0.
func (b *breaker) end(p permit, told outcome, err error, after time.Duration) {
	text := ""
	if told != success && err != nil {
		text = fmt.Sprint(err) // survives a method of the user's that panics
	}
	now := time.Now()
	b.mu.Lock()
	defer b.unlock()
	if told == success {
		b.messages.succeeded(p.id, now)
	} else if text != "" {
		b.last = text
	}
	late := false
	if p.place != nil {
		p.place.timer.Stop()
		late, p.place.over = p.place.over, true
	}
	switch {
	case told == throttled: // what a service asks for holds, however late
		b.throttle(after, now)
	case !late: // else it was counted when its place ended
		b.count(p, told, now)
	}
}

// count counts a call in the state that it began in. Later it changes nothing any more.
func (b *breaker) count(p permit, told outcome, now time.Time) {
	if p.epoch != b.epoch {
		return
	}
	switch b.state {
	case closed:
		if told == neutral || told == decided {
			return
		}
		b.window.add(p.id, told == failure, now)
		switch {
		case told != failure:
		case b.window.tripped(b.when, now):
			b.mine = true
			b.open(0)
		case b.window.halfway(b.when):
			b.heard = append(b.heard, event{kind: uneasy})
		}
	case probing:
		if told == decided {
			b.decided++
		} else if told != neutral {
			b.decided = 0
		}
		switch {
		case told == success, b.decided >= enoughMine: // else calls that never tell anything would come one by one for ever
			b.heard = append(b.heard, event{kind: recovers, took: now.Sub(b.since)})
			b.ramp()
		case told == failure:
			b.mine = true
			b.open(0)
		default:
			b.heard = append(b.heard, event{kind: unknown})
			b.shutOff(b.probe.First) // or such probes would come one after the other, without a pause
		}
	case ramping:
		b.running--
		b.climb(p, told, now)
	}
}

// climb counts a call of the ramp. A step is over when as many calls went well as it lets through at a time. Several
// messages that fail open the breaker again. One alone can't.
func (b *breaker) climb(p permit, told outcome, now time.Time) {
	switch told {
	case success, decided:
		b.well++
	case failure:
		b.ill++
		b.failed = see(b.failed, p.id, now)
		if len(b.failed) == cap(b.failed) && b.ill >= b.well {
			if b.mine = true; wasBack(b) {
				b.openings = 0
			}
			b.open(0)
			return
		}
	}
	if b.well < b.limit {
		return
	}
	if b.limit < rampMost {
		b.step(2 * b.limit)
		return
	}
	b.heard = append(b.heard, event{kind: isClosed, took: now.Sub(b.since)})
	b.move(closed)
	b.openings = 0
	b.window = newWindow(b.when)
}

// ramp begins to let calls through.
func (b *breaker) ramp() {
	b.mine, b.decided, b.asked, b.owed, b.ramped = false, 0, time.Time{}, time.Time{}, time.Now()
	b.move(ramping)
	b.step(2)
	b.running = 0
}

// wasBack reports that the ramp goes on for so long, because calls are few, that a service which fails now was back.
func wasBack(b *breaker) bool {
	return b.state == ramping && time.Since(b.ramped) >= b.when.Window
}

// step begins a step of the ramp.
func (b *breaker) step(limit int) {
	b.limit, b.well, b.ill, b.failed = limit, 0, 0, b.failed[:0]
	b.news.tell()
}

// throttle shuts the breaker for as long as the service asks, whatever the call was.
func (b *breaker) throttle(after time.Duration, now time.Time) {
	if b.state == open && !b.until.Before(now.Add(after)) {
		return
	}
	b.open(after)
	if b.asked = b.until; after > 0 {
		b.asked = now.Add(after)
	}
	b.owed = b.asked
}

// open opens the breaker for at least the time that a service asks for, or for the time until the next probe.
func (b *breaker) open(atLeast time.Duration) {
	kind := stays
	switch {
	case b.state == closed, wasBack(b):
		kind, b.since = opened, time.Now()
	case b.state == ramping:
		kind = relapses
	}
	rest := b.pace()
	if b.state != open { // else the service has only asked for more time
		b.openings++
	}
	rest = time.Duration(float64(rest) * (1 - spread + 2*spread*rand.Float64()))
	if atLeast > 0 {
		rest = atLeast + time.Duration(spread/2*rand.Float64()*float64(atLeast)) // never before the service's own time
	}
	b.shutOff(rest)
	b.heard = append(b.heard, event{kind: kind, last: b.last, next: rest})
}

// shutOff lets no call through for a while.
func (b *breaker) shutOff(rest time.Duration) {
	b.move(open)
	b.until = time.Now().Add(rest)
	watchOver(b)
	epoch := b.epoch
	b.timer = time.AfterFunc(rest, func() {
		b.mu.Lock()
		defer b.unlock()
		if b.epoch == epoch {
			b.move(due)
		}
	})
}

// watchOver begins to watch over a breaker that is shut, under the mutex. Should it stay so for twice the longest time
// between two probes after it was to open, it lets one call through, whatever went wrong.
func watchOver(b *breaker) {
	after := time.Until(b.until) + 2*b.probe.Most
	if b.watch != nil {
		b.watch.Reset(after)
		return
	}
	b.watch = time.AfterFunc(after, func() {
		b.mu.Lock()
		defer b.unlock()
		if late := time.Since(b.until); b.watch != nil && b.state.shut() && late >= 2*b.probe.Most {
			b.heard = append(b.heard, event{kind: stuck, took: late})
			b.move(due)
		}
	})
}

// pace is the time until the next probe, from the moment when the breaker opens.
func (b *breaker) pace() time.Duration {
	if b.openings < longerAtMax {
		return min(b.probe.First<<b.openings, b.probe.Most)
	}
	return b.probe.Most
}

// move changes the state.
func (b *breaker) move(to state) {
	if to == open || to == probing {
		b.shut = time.Now()
	}
	b.state = to
	if !b.state.shut() && b.watch != nil {
		b.watch.Stop()
		b.watch = nil
	}
	b.epoch++
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	b.news.tell()
}

// shutFor reports that no call is let through, and how long that lasts.
func (b *breaker) shutFor() (wait time.Duration, shut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.state.shut() {
		return 0, false
	}
	return max(time.Until(b.until), 0), true
}

// spend notes that a message has failed. It reports that this is an attempt: the breaker lets calls through, and the
// service has done another message's call lately. attempts were spent before. waited is how long ago its last try was,
// at least, in another process; 0: it may have had none.
func (b *breaker) spend(id string, attempts int, waited time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	within := b.when.Window
	if waited > 0 { // a success before that may be one of before an outage
		within = min(within, waited)
	}
	if !b.messages.failed(id, attempts, time.Now(), b.shut, within) || b.state != closed && b.state != ramping {
		return false
	}
	b.messages.spent(id)
	return true
}

// repeat reports that a call may be repeated in place: not if several have failed in a row.
func (b *breaker) repeat() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	return b.state == closed && !b.window.spreads(b.when, now) && b.window.repeat(now)
}

// rest returns how long the breaker stays open, and how often a message has failed here since it was shut last and
// since its last attempt.
func (b *breaker) rest(id string) (wait time.Duration, failures int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, _ := b.messages.tries.Get(id)
	if b.state != open {
		return 0, last.times
	}
	return max(0, time.Until(b.until)), last.times
}

// settles returns how long workers may still take messages as if the breaker were not shut.
func (b *breaker) settles() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.state.shut() {
		return 0
	}
	return settling - time.Since(b.shut)
}

// place is how long a call keeps a place at most.
func (c *Config) place() time.Duration {
	if c.Timeout == NoTimeout {
		return placeTime + placeGrace
	}
	return c.Timeout + placeGrace
}
