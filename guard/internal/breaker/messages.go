package breaker

import (
	"time"

	"github.com/millrace-go/millrace/internal/lru"
)

// triesKept is how many messages that failed last are known.
const triesKept = 1024

// messages knows which messages' calls were done and failed last. Its callers hold a mutex.
type messages struct {
	ok    [2]sighting // that were done last, the newest first
	tries *lru.Cache[try]
}

// try is when a message failed here last, the attempts spent by then, and how often it failed here since the last one
// of them and since the breaker was shut last.
type try struct {
	at       time.Time
	times    int
	attempts int
}

func newMessages() messages { return messages{tries: lru.New[try](triesKept, 0)} }

// succeeded notes that a message's call was done.
func (m *messages) succeeded(id string, now time.Time) {
	if id == "" || id != m.ok[0].id {
		m.ok[1] = m.ok[0]
	}
	m.ok[0] = sighting{id, now}
}

// failed notes that a message's call has failed, which has spent so many attempts before. It reports that the service
// has done another message's call since the last try of this one, or within a time where that isn't known, because
// another process had it. shut is when the breaker was shut last: what failed before may have failed because the
// service was away.
func (m *messages) failed(id string, attempts int, now, shut time.Time, within time.Duration) bool {
	last, known := m.tries.Get(id)
	since := last.at
	if earliest := now.Add(-within); since.Before(earliest) && attempts > last.attempts || !known {
		since = earliest
	}
	times := 1
	if known && attempts == last.attempts && last.at.After(shut) {
		times += last.times
	}
	other := m.ok[0]
	if other.id == id {
		other = m.ok[1]
	}
	m.tries.Add(id, try{now, times, attempts}, len(id))
	return other.at.After(since)
}

// spent notes that the last failure of a message is an attempt.
func (m *messages) spent(id string) {
	last, _ := m.tries.Get(id)
	last.attempts, last.times = last.attempts+1, 0
	m.tries.Add(id, last, len(id))
}

// Spend notes that a message has failed. It reports that this is an attempt: the breaker lets calls through, and the
// service has done another message's call lately. attempts were spent before. waited is how long ago its last try was,
// at least, in another process; 0: it may have had none.
func (m *Machine) Spend(id string, attempts int, waited time.Duration, now time.Time) bool {
	within := m.when.Window
	if waited > 0 { // a success before that may be one of before an outage
		within = min(within, waited)
	}
	if !m.messages.failed(id, attempts, now, m.shut, within) || m.state != Closed && m.state != Ramping {
		return false
	}
	m.messages.spent(id)
	return true
}

// Failures is how often a message has failed here since the breaker was shut last, and since the message's last
// attempt.
func (m *Machine) Failures(id string) int {
	last, _ := m.messages.tries.Get(id)
	return last.times
}

// Repeat reports that a call may be repeated in place: not if several messages have failed in a row.
func (m *Machine) Repeat(now time.Time) bool {
	return m.state == Closed && !m.Spreads(now) && m.window.repeat(now)
}

// Spreads reports that calls seem to fail for more than one message.
func (m *Machine) Spreads(now time.Time) bool { return m.window.spreads(m.when, now) }
