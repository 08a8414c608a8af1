package agree

import (
	"time"

	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/storage"
)

// mostSightings bounds what a Memory remembers. A document beyond that counts as seen for the first time.
const mostSightings = 4096

// A Memory is what a process has seen of documents, by their keys. So one call goes on watching a holder where an
// earlier call has begun. Its methods may be called concurrently.
type Memory[D any] struct{ seen *lru.Cache[Sighting[D]] }

// NewMemory returns a Memory of nothing.
func NewMemory[D any]() Memory[D] {
	return Memory[D]{lru.New[Sighting[D]](mostSightings, mostSightings)}
}

type memoryKey[D any] struct{}

// MemoryOf is what this process has seen of the documents of a type in a store.
func MemoryOf[D any](store *storage.Store) Memory[D] {
	return store.Memory(memoryKey[D]{}, func() any { return NewMemory[D]() }).(Memory[D])
}

// Recall returns what was seen last; the zero Sighting for a document that the process doesn't remember.
func (m Memory[D]) Recall(key string) Sighting[D] {
	s, _ := m.seen.Get(key)
	return s
}

// Note notes what was read or written last, and returns the sighting that calls recall that begin later: the document
// may have been seen in this state before. A call under way keeps its own sighting, so that not all calls write at one
// moment.
func (m Memory[D]) Note(key string, s Sighting[D]) Sighting[D] {
	before, ok := m.seen.Get(key)
	if ok && s.ETag != "" && before.ETag == s.ETag {
		return before
	}
	m.seen.Add(key, s, 1)
	return s
}

// Forget forgets a document.
func (m Memory[D]) Forget(key string) { m.seen.Take(key) }

// TakenFor is how long the document of a holder must be left to the holder, counted from now. It is 0 or less from the
// moment on at which the holder counts as dead.
func (s Sighting[D]) TakenFor(ttl time.Duration) time.Duration {
	return time.Until(DeadFrom(s.Since, ttl))
}
