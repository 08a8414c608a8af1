package guard

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

// news is a channel for those that wait for a change. Its callers hold a mutex.
type news struct{ changed chan struct{} }

// wait returns a channel that is closed at the next change.
func (n *news) wait() <-chan struct{} {
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

func (n *news) tell() {
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}
