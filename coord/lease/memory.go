package lease

import (
	"time"

	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/storage"
)

// mostSights bounds the leases that a process remembers of a store. One beyond them counts as seen for the first time.
const mostSights = 4096

// A sight is a lease as a process has seen it last.
type sight struct {
	doc  document
	etag storage.ETag // empty: there is no blob
	seen time.Time    // when this state was first seen; after the read, so not before the blob was written
}

type sightsKey struct{}

// sightsOf is what this process has seen of the leases of a store, by their names. So one call goes on watching a
// holder where an earlier call has begun.
func sightsOf(store *storage.Store) *lru.Cache[sight] {
	return store.Memory(sightsKey{}, func() any { return lru.New[sight](mostSights, mostSights) }).(*lru.Cache[sight])
}

// saw notes what was read last. A state that another call of this process has seen before is as old as that one says.
func (c *candidate) saw(s sight) {
	if before, ok := c.sights.Get(c.key); ok && s.etag != "" && before.etag == s.etag && before.seen.Before(s.seen) {
		s.seen = before.seen
	}
	c.sight = s
	c.sights.Add(c.key, s, 1)
}
