package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/limit/internal/bucket"
	"github.com/millrace-go/millrace/storage"
)

// A Rate is calls a second, of all processes that name it together. Its methods may be called concurrently.
type Rate struct {
	key string
	b   *bucket.Bucket
}

// NewRate returns this process's part of a rate. It makes no request. A name is a key of a blob; see storage.CheckKey.
// The limit is at least [LeastRate]. An error is about the store, the name, the limit or cfg.
func NewRate(store *storage.Store, name string, perSecond float64, cfg Config) (*Rate, error) {
	cfg, err := cfg.withDefaults(store, name)
	if err == nil {
		err = CheckRate(perSecond)
	}
	if err != nil {
		return nil, fmt.Errorf("limit: rate %s: %w", storage.Quote(name), err)
	}
	key := "rate/" + name
	return &Rate{key, bucket.NewRate(bucket.Units(perSecond), cfg.join(store, key))}, nil
}

// LocalRate returns a rate of this process alone, without a store.
func LocalRate(perSecond float64) (*Rate, error) {
	if err := CheckRate(perSecond); err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	return &Rate{"rate", bucket.NewRate(bucket.Units(perSecond), alone())}, nil
}

// Set changes the limit that this process knows. The smallest of all processes is in force.
func (r *Rate) Set(perSecond float64) error {
	if err := CheckRate(perSecond); err != nil {
		return fmt.Errorf("limit: set %s: %w", storage.Quote(r.key), err)
	}
	r.b.SetLimit(bucket.Units(perSecond))
	return nil
}

// Take takes a permit for one call, or returns how long to wait before the next try. While calls are in [Rate.Wait],
// the permits are theirs. The first call of a process that was idle finds none, because it must join the others first.
func (r *Rate) Take() (wait time.Duration, ok bool) { return r.b.Take() }

// Wait waits for a permit and takes it, or returns the cause of ctx. Calls get their permits in the order in which they
// have come.
func (r *Rate) Wait(ctx context.Context) error { return r.b.Wait(ctx) }

// Room returns how many permits there are now, and that come within a time. If there are none, it returns when to look
// again, and a channel that is closed when that changes; the process then counts as one that wants more.
//
// A process that is idle has one: its first call is what joins the others.
func (r *Rate) Room(within time.Duration) (n int, wait time.Duration, changed <-chan struct{}) {
	return r.b.Room(within)
}

// Share returns the part of the rate, in calls a second, that is in force in this process now.
func (r *Rate) Share() float64 { return bucket.PerSecond(r.b.Share()) }

// Leave gives the share back, so that others have it at once. The next call joins again. After an error, others have it
// after 7/6 of the TTL, which is 20 seconds.
func (r *Rate) Leave(ctx context.Context) error { return left(r.key, r.b.Leave(ctx)) }
