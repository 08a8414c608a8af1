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

// saw notes what was read last. The process remembers since when it knows of this state, for the calls that begin
// later; those under way keep their own time, so that they don't all write at one moment.
func (c *candidate) saw(s sight) {
	c.sight = s
	if before, ok := c.sights.Get(c.key); !ok || s.etag == "" || before.etag != s.etag {
		c.sights.Add(c.key, s, 1)
	}
}
