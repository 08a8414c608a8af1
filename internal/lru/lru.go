// Package lru keeps what was used last, bounded by its number and by its bytes.
package lru

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A Cache keeps what was used last. Safe for concurrent use.
type Cache[T any] struct {
	mu    sync.Mutex
	kept  *simplelru.LRU[string, sized[T]]
	bytes int // of all that is kept
	most  int
}

type sized[T any] struct {
	what  T
	bytes int
}

// Defaults of [New]: the collections of package values keep as many documents, and so do views.
const (
	DefaultEntries = 4096
	DefaultBytes   = 32 << 20
)

// New returns a cache for so many entries and bytes. What is not above 0 is [DefaultEntries] or [DefaultBytes].
func New[T any](entries, bytes int) *Cache[T] {
	if entries <= 0 {
		entries = DefaultEntries
	}
	if bytes <= 0 {
		bytes = DefaultBytes
	}
	c := &Cache[T]{most: bytes}
	c.kept, _ = simplelru.NewLRU(entries, func(_ string, x sized[T]) { c.bytes -= x.bytes }) // fails for a size below 1 only
	return c
}

// Add keeps something under a key, in place of what was there. bytes is what its user counts for it; it isn't kept when
// that is more than the cache may have.
func (c *Cache[T]) Add(key string, what T, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(key)
	if bytes > c.most {
		return
	}
	c.bytes += bytes
	c.kept.Add(key, sized[T]{what, bytes})
	for c.bytes > c.most {
		c.kept.RemoveOldest()
	}
}

// Get returns what is kept under a key.
func (c *Cache[T]) Get(key string) (what T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.kept.Get(key)
	return x.what, ok
}

// Take is Get, and what it returns is no longer kept.
func (c *Cache[T]) Take(key string) (what T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.kept.Peek(key)
	c.kept.Remove(key)
	return x.what, ok
}

// Clear empties the cache.
func (c *Cache[T]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Purge()
}
