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

// try is when a message failed last, and how often since the breaker was shut last.
type try struct {
	at    time.Time
	times int
}

func newMessages() messages { return messages{tries: lru.New[try](triesKept, 0)} }

// succeeded notes that a message's call was done.
func (m *messages) succeeded(id string, now time.Time) {
	if id == "" || id != m.ok[0].id {
		m.ok[1] = m.ok[0]
	}
	m.ok[0] = sighting{id, now}
}

// failed notes that a message's call has failed. It reports that the service has done another message's call since the
// last try of this one, or within a time where that isn't known. shut is when the breaker was shut last: what failed
// before may have failed because the service was away.
func (m *messages) failed(id string, now, shut time.Time, within time.Duration) bool {
	last, known := m.tries.Get(id)
	if !known {
		last.at = now.Add(-within)
	}
	times := 1
	if known && last.at.After(shut) {
		times += last.times
	}
	m.tries.Add(id, try{now, times}, len(id))
	other := m.ok[0]
	if other.id == id {
		other = m.ok[1]
	}
	return other.at.After(last.at)
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
