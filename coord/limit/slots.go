package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/limit/internal/bucket"
	"github.com/millrace-go/millrace/storage"
)

// Slots are calls at a time, of all processes that name them together. Its methods may be called concurrently.
type Slots struct {
	key string
	b   *bucket.Bucket
}

// NewSlots returns this process's part of n slots. It makes no request. A name is a key of a blob; see
// storage.CheckKey. An error is about the store, the name, n or cfg.
func NewSlots(store *storage.Store, name string, n int, cfg Config) (*Slots, error) {
	cfg, err := cfg.withDefaults(store, name)
	if err == nil {
		err = CheckSlots(n)
	}
	if err != nil {
		return nil, fmt.Errorf("limit: slots %s: %w", storage.Quote(name), err)
	}
	key := "slots/" + name
	return &Slots{key, bucket.NewSlots(int64(n), cfg.join(store, key))}, nil
}

// LocalSlots returns slots of this process alone, without a store.
func LocalSlots(n int) (*Slots, error) {
	if err := CheckSlots(n); err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	return &Slots{"slots", bucket.NewSlots(int64(n), alone())}, nil
}

// Set changes the number that this process knows. The smallest of all processes is in force.
func (s *Slots) Set(n int) error {
	if err := CheckSlots(n); err != nil {
		return fmt.Errorf("limit: set %s: %w", storage.Quote(s.key), err)
	}
	s.b.SetLimit(int64(n))
	return nil
}

// Take takes a slot for one call, or returns how long to wait before the next try; a slot may be free before. Each slot
// that was taken is given back once, by [Slots.Give]. The first call of a process that was idle finds none, because it
// must join the others first. While calls are in [Slots.Wait], the slots are theirs.
func (s *Slots) Take() (wait time.Duration, ok bool) { return s.b.Take() }

// Give gives a slot back, when its call has ended.
func (s *Slots) Give() { s.b.Give() }

// Wait waits for a slot and takes it, or returns the cause of ctx. Calls get their slots in the order in which they
// have come.
func (s *Slots) Wait(ctx context.Context) error { return s.b.Wait(ctx) }

// Room returns how many calls of this process may be under way, those that are included, and a channel that is closed
// when that changes. A process that is idle has one: its first call is what joins the others.
func (s *Slots) Room() (n int, changed <-chan struct{}) {
	n, _, changed = s.b.Room(0)
	return n, changed
}

// Share returns the slots of this process that are in force now.
func (s *Slots) Share() int { return int(s.b.Share()) }

// Leave gives the share back, so that others have it at once. Slots of calls that are under way are given back when
// these end; Leave doesn't wait for that. The next call joins again. After an error, others have the share after 7/6 of
// the TTL, which is 20 seconds.
func (s *Slots) Leave(ctx context.Context) error { return left(s.key, s.b.Leave(ctx)) }
