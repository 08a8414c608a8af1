package throttle

import "time"

// A memory is what a rate limiter knows of tenants and of its queue. Passes go on with it.
type memory struct {
	name     string // of the rate limiter
	key      []byte // see Config.Key
	start    time.Time
	shards   [shards]shard
	pressure *pressure // nil for none
}

// now is the time since the rate limiter's beginning, in nanoseconds. No clock that jumps has a part in it.
func (m *memory) now() int64 { return int64(time.Since(m.start)) }

// shard returns the part of the memory that has a tenant.
func (m *memory) shard(who party) *shard { return &m.shards[shardOf(who.hash)] }
