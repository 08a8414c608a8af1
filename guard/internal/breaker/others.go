package breaker

import "time"

// View is what a breaker shows of itself.
type View struct {
	State    State
	Epoch    uint64 // grows with each change of state
	Probed   uint64 // epoch in which the last probe found the breaker due
	Own      bool   // it has opened by this process's own calls
	Answered bool   // calls of this process are done
	Opened   time.Time
	Shut     time.Time // when it was shut last
	Until    time.Time // when the open state, or the probe, is over
	Why      string    // the last error of a call
	AtATime  int       // calls that the ramp lets through
	Break    Break
	Probe    Probe

	RetryAfterAny time.Time // until when the service asks to wait, as far as it is known
	RetryAfterOwn time.Time // until when the service has asked this process's own calls to wait
}

// Rest returns how long an open breaker stays so; 0 if it isn't open.
func (v View) Rest(now time.Time) time.Duration {
	if v.State != Open {
		return 0
	}
	return max(0, v.Until.Sub(now))
}

// View returns what the breaker shows of itself.
func (m *Machine) View(now time.Time) View {
	v := View{
		State: m.state, Epoch: m.epoch, Probed: m.probed, Own: m.own, Opened: m.opened, Shut: m.shut, Until: m.until, Why: m.lastError,
		AtATime: m.ramp.limit, Break: m.when, Probe: m.probe, RetryAfterAny: m.retryAfterAny, RetryAfterOwn: m.retryAfterOwn,
	}
	done := m.messages.ok[0].at
	begins := m.state == Ramping && m.ramp.failures == 0 && done.After(m.ramp.since)
	v.Answered = (m.state == Closed || begins) && now.Sub(done) < m.when.Window
	return v
}

// Outage is what other processes have agreed on.
type Outage struct {
	Tries int       // probes that have failed
	More  bool      // they are more than this process knew
	Pause time.Time // until when the service asks all to wait; zero: it doesn't, or that isn't known
	Why   string    // the error that opened the first breaker
	Part  int       // hundredths of the time until the next probe
}

// OpenedByOthers opens the breaker because other processes have agreed that the service is away, or asks to wait.
func (m *Machine) OpenedByOthers(o Outage, now time.Time) {
	calls := m.state == Closed || m.state == Ramping
	if m.state == Probing || !calls && !o.More && !o.Pause.After(m.until) {
		return
	}
	if o.Tries > 0 || calls {
		m.openings = o.Tries
	}
	if m.state == Closed && o.Why != "" {
		m.lastError = o.Why
	}
	if o.Pause.After(m.retryAfterAny) {
		m.retryAfterAny = o.Pause
	}
	m.open(max(m.pace()*time.Duration(o.Part)/100, m.retryAfterAny.Sub(now)), now)
}

// Recovered begins to let calls through, because the service has answered another process, unless the service has asked
// this process to wait.
func (m *Machine) Recovered(now time.Time) {
	if (m.state == Open || m.state == Due) && !m.retryAfterOwn.After(now) {
		m.recover(now)
	}
}

// Postpone lets no call through for a while, because another process probes.
func (m *Machine) Postpone(rest time.Duration, now time.Time) {
	if m.state == Due {
		m.shutOff(rest, now)
	}
}
