package breaker

import "time"

// State is that of a breaker; see the package comment.
type State int

// The states of a breaker.
const (
	Closed  State = iota
	Open          // no call is let through
	Due           // the next call is the probe
	Probing       // one call is under way
	Ramping       // some calls at a time
)

// Shut reports that no call is let through.
func (s State) Shut() bool { return s == Open || s == Probing }

// Away reports that the service is taken to be away: no call is let through, or a probe at most.
func (s State) Away() bool { return s.Shut() || s == Due }

const (
	enoughDecided = 3   // probes in a row that have decided on their messages themselves
	spread        = 0.2 // of the time until a probe
	longerAtMax   = 16  // doublings; no time doubles more often
)

// Outcome is what a call tells about the service.
type Outcome int

// The outcomes of a call.
const (
	Neutral Outcome = iota
	Success
	Failure
	Throttled
	Decided // the call has decided on its message itself: the service may have answered
)

// Break is when a breaker opens: when Rate of the calls in Window failed, of Of calls at least, or when Of calls failed
// in a row. In both cases at least Distinct messages must have failed.
type Break struct {
	Rate     float64
	Of       int
	Distinct int
	Window   time.Duration
}

// Probe is how long a breaker stays open before a call is let through: First, then twice as long after each probe that
// fails, up to Most.
type Probe struct{ First, Most time.Duration }

// Permit is the right to make one call.
type Permit struct {
	id    string
	epoch uint64
	ended *bool // that its place has; nil: it takes none, as the breaker is closed
}

// HasPlace reports that a call takes a place, as a probe or in the ramp. [Machine.Expire] frees it if the call doesn't
// end.
func (p Permit) HasPlace() bool { return p.ended != nil }

// IsOf reports that a call began in the state of an epoch.
func (p Permit) IsOf(epoch uint64) bool { return p.epoch == epoch }

// Machine is the breaker of one process.
type Machine struct {
	when  Break
	probe Probe
	place time.Duration // for which a call keeps a place at most
	roll  func() float64

	state     State
	epoch     uint64 // grows with each change of state; a call of an older epoch doesn't change the state
	opened    time.Time
	shut      time.Time // when it was shut last
	until     time.Time // when the open state, or the probe, is over
	openings  int       // since it was closed
	probed    uint64    // epoch in which the last probe found it due
	own       bool      // it has opened by this process's own calls
	decided   int       // probes in a row that have decided on their messages themselves
	lastError string    // of a call

	retryAfterAny time.Time // until when the service asks to wait, as far as it is known
	retryAfterOwn time.Time // until when the service has asked this process's own calls to wait

	window   window // of calls while it is closed
	ramp     ramp
	messages messages
	actions  Actions
}

// New returns a closed breaker. A call keeps a place for a time at most. roll returns numbers from 0 to 1, by which
// pauses are spread.
func New(when Break, probe Probe, place time.Duration, roll func() float64) *Machine {
	return &Machine{
		when: when, probe: probe, place: place, roll: roll, window: newWindow(when),
		ramp: ramp{failing: make([]sighting, 0, 2)}, messages: newMessages(),
	}
}

// Set changes the numbers. If Break changes, calls are counted anew.
func (m *Machine) Set(when Break, probe Probe) {
	if m.when != when {
		m.when, m.window = when, newWindow(when)
	}
	m.probe = probe
}

// Take returns what the caller is to do since it asked last; nil: nothing has changed.
func (m *Machine) Take() *Actions {
	if !m.actions.Changed && len(m.actions.Events) == 0 {
		return nil
	}
	a := m.actions
	m.actions.Events, m.actions.Changed = nil, false
	return &a
}

// Pass lets a call through a closed breaker, whatever the time. Else it reports false.
func (m *Machine) Pass(id string) (p Permit, ok bool) {
	return Permit{id: id, epoch: m.epoch}, m.state == Closed
}

// Begin lets a call through, or returns how long it must wait. Each permit is ended once.
func (m *Machine) Begin(id string, now time.Time) (p Permit, wait time.Duration, ok bool) {
	p = Permit{id: id, epoch: m.epoch}
	switch m.state {
	case Closed:
		return p, 0, true
	case Open:
		return Permit{}, max(m.until.Sub(now), 0), false
	case Probing: // the probe may end at once; if it fails, the next one comes after this time
		return Permit{}, min(m.pace(), max(m.until.Sub(now), 0)), false
	case Due:
		m.probed = m.epoch
		m.move(Probing, now)
		m.until = now.Add(m.place)
		m.actions.Watch = m.until.Add(2 * m.probe.Most)
	case Ramping:
		if !m.ramp.enter() {
			return Permit{}, rampAgain, false
		}
	}
	p.epoch, p.ended = m.epoch, new(bool)
	return p, 0, true
}

// Expire frees the place of a call that goes on for too long. The call counts as one that failed.
func (m *Machine) Expire(p Permit, now time.Time) {
	if *p.ended {
		return
	}
	*p.ended = true
	m.actions.tell(Event{Kind: Overdue, ID: p.id, Took: m.place})
	m.count(p, Failure, now)
}

// End ends a permit by what its call tells. text is that of the call's error. after is how long a service asks to wait,
// or 0.
func (m *Machine) End(p Permit, told Outcome, text string, after time.Duration, now time.Time) {
	if told == Success {
		m.messages.succeeded(p.id, now)
	} else if text != "" {
		m.lastError = text
	}
	late := false
	if p.ended != nil {
		late, *p.ended = *p.ended, true
	}
	switch {
	case told == Throttled: // what a service asks for holds, however late
		m.throttle(after, now)
	case !late: // else it was counted when its place ended
		m.count(p, told, now)
	}
}

// Wake lets the next call be the probe, if the pause is over.
func (m *Machine) Wake(now time.Time) {
	if at := m.actions.Wake; !at.IsZero() && !now.Before(at) {
		m.move(Due, now)
	}
}

// Watch lets one call through, whatever went wrong, if the breaker stayed shut for twice the longest time between two
// probes after it was to open.
func (m *Machine) Watch(now time.Time) {
	if at := m.actions.Watch; !at.IsZero() && !now.Before(at) {
		m.actions.tell(Event{Kind: Stuck, Took: now.Sub(m.until)})
		m.move(Due, now)
	}
}

// count counts a call in the state that it began in. Later it changes nothing any more.
func (m *Machine) count(p Permit, told Outcome, now time.Time) {
	if p.epoch != m.epoch {
		return
	}
	switch m.state {
	case Closed:
		if told == Neutral || told == Decided {
			return
		}
		m.window.add(p.id, told == Failure, now)
		switch {
		case told != Failure:
		case m.window.tripped(m.when, now):
			m.own = true
			m.open(0, now)
		case m.window.halfway(m.when):
			m.actions.tell(Event{Kind: CallsFail})
		}
	case Probing:
		m.countProbe(told, now)
	case Ramping:
		m.climb(p, told, now)
	}
}

// countProbe counts the probe.
func (m *Machine) countProbe(told Outcome, now time.Time) {
	if told == Decided {
		m.decided++
	} else if told != Neutral {
		m.decided = 0
	}
	switch {
	case told == Success, m.decided >= enoughDecided: // else calls that never tell anything would come one by one for ever
		m.recover(now)
	case told == Failure:
		m.own = true
		m.open(0, now)
	default:
		m.actions.tell(Event{Kind: Inconclusive})
		m.shutOff(m.probe.First, now) // or such probes would come one after the other, without a pause
	}
}

// climb counts a call of the ramp. A step is over when as many calls went well as it lets through at a time.
func (m *Machine) climb(p Permit, told Outcome, now time.Time) {
	if m.ramp.leave(p.id, told, now) {
		if m.own = true; m.ramp.wasBack(m.when, now) {
			m.openings = 0
		}
		m.open(0, now)
		return
	}
	switch {
	case m.ramp.successes < m.ramp.limit:
	case m.ramp.limit < rampMost:
		m.ramp.step(2 * m.ramp.limit)
		m.actions.Changed = true
	default:
		m.actions.tell(Event{Kind: IsClosed, Took: now.Sub(m.opened)})
		m.move(Closed, now)
		m.openings, m.window = 0, newWindow(m.when)
	}
}

// recover begins to let calls through.
func (m *Machine) recover(now time.Time) {
	m.actions.tell(Event{Kind: Recovers, Took: now.Sub(m.opened)})
	m.own, m.decided, m.retryAfterAny, m.retryAfterOwn = false, 0, time.Time{}, time.Time{}
	m.move(Ramping, now)
	m.ramp.since, m.ramp.running = now, 0
	m.ramp.step(2)
}

// throttle shuts the breaker for as long as the service asks, whatever the call was.
func (m *Machine) throttle(after time.Duration, now time.Time) {
	if m.state == Open && !m.until.Before(now.Add(after)) {
		return
	}
	m.open(after, now)
	if m.retryAfterAny = m.until; after > 0 {
		m.retryAfterAny = now.Add(after)
	}
	m.retryAfterOwn = m.retryAfterAny
}

// open opens the breaker for at least the time that a service asks for, or for the time until the next probe.
func (m *Machine) open(atLeast time.Duration, now time.Time) {
	kind := Stays
	switch {
	case m.state == Closed, m.state == Ramping && m.ramp.wasBack(m.when, now):
		kind, m.opened = Opened, now
	case m.state == Ramping:
		kind = Relapses
	}
	rest := m.pace()
	if m.state != Open { // else the service has only asked for more time
		m.openings++
	}
	rest = time.Duration(float64(rest) * (1 - spread + 2*spread*m.roll()))
	if atLeast > 0 {
		rest = atLeast + time.Duration(spread/2*m.roll()*float64(atLeast)) // never before the service's own time
	}
	m.shutOff(rest, now)
	m.actions.tell(Event{Kind: kind, Last: m.lastError, Next: rest})
}

// shutOff lets no call through for a while.
func (m *Machine) shutOff(rest time.Duration, now time.Time) {
	m.move(Open, now)
	m.until = now.Add(rest)
	m.actions.Wake, m.actions.Watch = m.until, m.until.Add(2*m.probe.Most)
}

// pace is the time until the next probe, from the moment when the breaker opens.
func (m *Machine) pace() time.Duration {
	if m.openings < longerAtMax {
		return min(m.probe.First<<m.openings, m.probe.Most)
	}
	return m.probe.Most
}

// move changes the state.
func (m *Machine) move(to State, now time.Time) {
	if m.state = to; to.Shut() {
		m.shut = now
	} else {
		m.actions.Watch = time.Time{}
	}
	m.epoch++
	m.actions.Wake, m.actions.Changed = time.Time{}, true
}
