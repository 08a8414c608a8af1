package millracetest

import (
	"slices"
	"sync"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// tombstones is the table of cancelled messages, where the store finds none by its key; see internal/wire.
const tombstones = "cancelled"

// cancellations are what a recorder knows of delayed messages that are taken back. A deletion cancels a message if its
// receipt came from Find, or if a tombstone names the message. Any other deletion of an unhandled message loses it.
type cancellations struct {
	mu         sync.Mutex
	found      map[claim]*sent
	held       map[claim]*sent // received
	tombstones map[tombstoneKey][]byte
}

type claim struct {
	queue   string
	receipt storage.Receipt
}

type tombstoneKey struct{ queue, key string }

func newCancellations() *cancellations {
	return &cancellations{found: map[claim]*sent{}, held: map[claim]*sent{}, tombstones: map[tombstoneKey][]byte{}}
}

// wasFound notes a message that was found by its key.
func (c *cancellations) wasFound(at claim, x *sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found[at] = x
}

// wasReceived notes a message that a worker has.
func (c *cancellations) wasReceived(at claim, x *sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[at] = x
}

// wasExtended notes the new receipt of a message that a worker has.
func (c *cancellations) wasExtended(old, next claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.held[old]; x != nil {
		c.held[next] = x
	}
}

// wasBuried notes a tombstone.
func (c *cancellations) wasBuried(at tombstoneKey, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tombstones[at] = slices.Clone(data)
}

// by returns the message that a deletion cancels; nil if it cancels none.
func (c *cancellations) by(deleted claim) *sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.found[deleted]; x != nil {
		return x
	}
	held := c.held[deleted]
	if held == nil {
		return nil
	}
	data, ok := c.tombstones[tombstoneKey{deleted.queue, wire.TombstoneKey(held.e.Kind, held.e.ID)}]
	if !ok || !wire.TakesBack(data, &held.e) {
		return nil
	}
	return held
}
