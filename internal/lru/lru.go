// Package lru keeps the most recently used entries, bounded by their number and bytes.
package lru

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A Cache keeps the most recently used entries. It may be used concurrently.
type Cache[T any] struct {
	mu    sync.Mutex
	kept  *simplelru.LRU[string, sized[T]]
	bytes int // of all entries
	most  int
	full  int // entries
}

type sized[T any] struct {
	what  T
	bytes int
}

// These are the defaults of [New]. The collections of package values keep as many documents, and so do views.
const (
	DefaultEntries = 4096
	DefaultBytes   = 32 << 20
)

// New returns a cache for a number of entries and bytes. A number that is not above 0 becomes [DefaultEntries] or
// [DefaultBytes].
func New[T any](entries, bytes int) *Cache[T] {
	if entries <= 0 {
		entries = DefaultEntries
	}
	if bytes <= 0 {
		bytes = DefaultBytes
	}
	c := &Cache[T]{most: bytes, full: entries}
	c.kept, _ = simplelru.NewLRU(entries, func(_ string, x sized[T]) { c.bytes -= x.bytes }) // fails only for a size below 1
	return c
}

// Add keeps an entry under a key, in place of an older one. bytes is its size by the caller's count. An entry
// larger than the cache is not kept.
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

// AddIfRoom keeps an entry that counts one byte, in place of an older one under its key. A new one pushes out the least
// recently used entry only if mayGo is true of that. It reports whether the entry is kept.
func (c *Cache[T]) AddIfRoom(key string, what T, mayGo func(T) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.kept.Contains(key) && (c.kept.Len() >= c.full || c.bytes >= c.most) {
		if _, oldest, _ := c.kept.GetOldest(); !mayGo(oldest.what) {
			return false
		}
		c.kept.RemoveOldest()
	}
	c.kept.Remove(key)
	c.bytes++
	c.kept.Add(key, sized[T]{what, 1})
	return true
}

// Get returns the entry under a key.
func (c *Cache[T]) Get(key string) (what T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.kept.Get(key)
	return x.what, ok
}

// Take is Get, and removes the entry.
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
