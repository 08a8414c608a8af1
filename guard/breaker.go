package guard

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/worker"
)

const (
	placeGrace = 10 * time.Second      // for a call that goes on after its Timeout, before its place is free
	placeTime  = 5 * time.Minute       // of a call without Timeout
	settling   = 15 * time.Millisecond // within which workers see that a breaker is shut: they ask each 10 ms
)

// permit is the right to make one call.
type permit struct {
	breaker.Permit
	timer *time.Timer // frees the call's place; nil: it has none
	seat  seat        // in the limits
	again bool        // the call was made before, in this delivery
}

// localBreaker is the breaker of this process: the machine with its mutex and its alarms.
type localBreaker struct {
	place time.Duration // for which a call keeps a place at most
	say   func(breaker.Event)

	mu      sync.Mutex
	machine *breaker.Machine
	news    news  // of the limits
	wake    alarm // ends a pause
	watch   alarm // opens a breaker that its alarm doesn't
}

// alarm is a timer that is set while a breaker needs it.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero: it isn't set
}

// set lets ring be called at a time; zero: not at all.
func (a *alarm) set(at time.Time, ring func()) {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.at = at; !at.IsZero() {
		a.timer = time.AfterFunc(time.Until(at), ring)
	}
}

func newBreaker(cfg *Config, say func(breaker.Event)) *localBreaker {
	place := cfg.place()
	return &localBreaker{
		place: place, say: say,
		machine: breaker.New(breaker.Break(cfg.Break), breaker.Probe(cfg.Probe), place, rand.Float64),
	}
}

// place is how long a call keeps a place at most.
func (c *Config) place() time.Duration {
	if c.Timeout == NoTimeout {
		return placeTime + placeGrace
	}
	return c.Timeout + placeGrace
}

// Update calls f under the mutex, sets the alarms that the machine asks for, and says what has happened.
func (b *localBreaker) Update(f func(m *breaker.Machine, now time.Time)) {
	b.mu.Lock()
	f(b.machine, time.Now())
	a := b.machine.Take()
	if a == nil {
		b.mu.Unlock()
		return
	}
	if !a.Wake.Equal(b.wake.at) {
		b.wake.set(a.Wake, func() { b.ring(&b.wake, (*breaker.Machine).Wake) })
	}
	if !a.Watch.Equal(b.watch.at) {
		b.watch.set(a.Watch, func() { b.ring(&b.watch, (*breaker.Machine).Watch) })
	}
	if a.Changed {
		b.news.tell()
	}
	b.mu.Unlock()
	for _, e := range a.Events {
		b.say(e)
	}
}

// ring is an alarm.
func (b *localBreaker) ring(a *alarm, f func(*breaker.Machine, time.Time)) {
	b.Update(func(m *breaker.Machine, now time.Time) {
		if !now.Before(a.at) {
			*a = alarm{} // if the machine wants another alarm, that is set
			f(m, now)
		}
	})
}

// view returns what the breaker shows of itself.
func (b *localBreaker) view() breaker.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.View(time.Now())
}

// tell lets workers ask for their limits again.
func (b *localBreaker) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.news.tell()
}

// limits returns what is in force for a worker, and a channel that is closed when it changes.
func (b *localBreaker) limits() (worker.Limits, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := b.news.wait()
	switch v := b.machine.View(time.Now()); v.State {
	case breaker.Open, breaker.Probing:
		return worker.Limits{Pause: true}, changed
	case breaker.Due:
		return worker.Limits{Concurrency: 1, MaxInHand: 1}, changed
	case breaker.Ramping:
		return worker.Limits{Concurrency: v.AtATime, MaxInHand: v.AtATime}, changed
	}
	return worker.Limits{}, changed
}

// begin lets a call through, or returns how long it must wait. Each permit is ended once.
func (b *localBreaker) begin(id string) (p permit, wait time.Duration, ok bool) {
	if p.Permit, ok = b.pass(id); ok {
		return p, 0, true
	}
	b.Update(func(m *breaker.Machine, now time.Time) { p.Permit, wait, ok = m.Begin(id, now) })
	if ok && p.HasPlace() {
		place := p.Permit
		p.timer = time.AfterFunc(b.place, func() {
			b.Update(func(m *breaker.Machine, now time.Time) { m.Expire(place, now) })
		})
	}
	return p, wait, ok
}

// pass lets a call through a closed breaker.
func (b *localBreaker) pass(id string) (breaker.Permit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.Pass(id)
}

// end ends a permit by what its call tells. after is how long a service asks to wait, or 0.
func (b *localBreaker) end(p permit, told breaker.Outcome, err error, after time.Duration) {
	text := ""
	if told != breaker.Success && err != nil {
		text = fmt.Sprint(err) // survives a method of the user's that panics
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	b.Update(func(m *breaker.Machine, now time.Time) { m.End(p.Permit, told, text, after, now) })
}

// shutFor reports that no call is let through, and how long that lasts.
func (b *localBreaker) shutFor() (wait time.Duration, shut bool) {
	v := b.view()
	if !v.State.Shut() {
		return 0, false
	}
	return max(time.Until(v.Until), 0), true
}

// spend notes that a message has failed, and reports that this is an attempt; see [breaker.Machine.Spend].
func (b *localBreaker) spend(id string, attempts int, waited time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.Spend(id, attempts, waited, time.Now())
}

// repeat reports that a call may be repeated in place.
func (b *localBreaker) repeat() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.Repeat(time.Now())
}

// spreads reports that calls seem to fail for more than one message.
func (b *localBreaker) spreads() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.Spreads(time.Now())
}

// rest returns how long the breaker stays open, and how often a message has failed here since it was shut last and
// since its last attempt.
func (b *localBreaker) rest(id string) (wait time.Duration, failures int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	return b.machine.View(now).Rest(now), b.machine.Failures(id)
}

// settles returns how long workers may still take messages as if the breaker were not shut.
func (b *localBreaker) settles() time.Duration {
	v := b.view()
	if !v.State.Shut() {
		return 0
	}
	return settling - time.Since(v.Shut)
}
