package keylock

import (
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/lru"
)

const (
	// sights is how many free keys a process remembers, and as many of those that wait. Of a free key that it has
	// forgotten it reads the row. A key that waits has been seen for the first time then: its time begins anew.
	sights = 16384

	// unaskedFor is how long nobody has asked for a key before its place goes to another one.
	unaskedFor = 10 * time.Minute
)

// memory is what a process has seen of keys. Free keys push out the longest unused of them. Keys that wait have
// places of their own, from which nobody pushes them out: others can't keep a key from being taken over, or let its
// time begin anew. Where all these places are taken, a key that comes later waits for one, among the free keys. Each
// key leaves its place in the end: it is taken over, or others go past what it waits for, or nobody asks for it.
type memory struct {
	mu            sync.Mutex // so that a key is in one of them
	free, waiting *lru.Cache[sight]
}

func newMemory(most int) *memory {
	return &memory{free: lru.New[sight](most, 0), waiting: lru.New[sight](most, 0)}
}

// waits reports that time is counted for a key: until it is taken over, or until others go past what comes first. A
// halted key waits for an operator.
func (s *sight) waits() bool {
	return s.Fault != nil || s.Doc.ID != "" || !s.wait.since.IsZero() && s.Doc.State.Halted == nil
}

func (m *memory) get(key string) (sight, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.waiting.Get(key); ok {
		return s, true
	}
	return m.free.Get(key)
}

func (m *memory) put(key string, s sight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.asked = time.Now()
	if s.waits() && m.waiting.AddIfRoom(key, s, unasked) {
		m.free.Take(key)
		return
	}
	m.waiting.Take(key)
	m.free.Add(key, s, 1)
}

// unasked reports that nobody has asked for a key for so long that another one may have its place.
func unasked(s sight) bool { return time.Since(s.asked) >= unaskedFor }
