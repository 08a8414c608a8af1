package quorum

import (
	"time"

	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/storage"
)

// mostSights bounds the documents that a process remembers of a store. One beyond them counts as seen for the first
// time.
const mostSights = 4096

// A sight is a store's document as a process has seen it last.
type sight struct {
	doc    document
	etag   storage.ETag // empty: there is no document, as far as is known
	seen   time.Time    // when this state was first seen; after the read, so not before the write
	absent int          // how often in a row there was no document
}

type sightsKey struct{}

// sightsOf is what this process has seen in a store, by the names of locks. So one call goes on watching a holder where
// an earlier call has begun.
func sightsOf(store *storage.Store) *lru.Cache[sight] {
	return store.Memory(sightsKey{}, func() any { return lru.New[sight](mostSights, mostSights) }).(*lru.Cache[sight])
}

// saw notes what was read or written last. The process remembers since when it knows of this state, for the calls
// that begin later; those under way keep their own time, so that they don't all write at one moment.
func (g *grant) saw(s sight) {
	g.sight = s
	if before, ok := g.sights.Get(g.key); !ok || s.etag == "" || before.etag != s.etag {
		g.sights.Add(g.key, s, 1)
	}
}
