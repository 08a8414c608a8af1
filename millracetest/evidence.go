package millracetest

import (
	"sync"

	"github.com/millrace-go/millrace/internal/faulttest"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// evidence is what a run shows beside what its store records.
type evidence struct {
	world *faulttest.World

	mu       sync.Mutex
	found    []finding             // under mu
	reacted  map[reactionKey]*runs // under mu
	troubled map[string]int        // calls that failed or were disturbed, by resource; under mu
}

type reactionKey struct{ queue, id string }

// runs are the runs of a reaction to a message.
type runs struct {
	once      bool // it is one of handlers.ReactOnce
	successes int
}

// watchCall counts the faults that a process meets.
func (x *evidence) watchCall(_ *faulttest.Process, op storagetest.Op, f storagetest.Fault, err error) {
	if f == storagetest.NoFault && (err == nil || storage.LostRace(err)) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.troubled[op.Resource]++
}

// watchReaction notes how a reaction to a message runs.
func (x *evidence) watchReaction(h *wire.Handling, once bool) (done func(error)) {
	key := reactionKey{h.Queue, h.Envelope.ID}
	x.world.Tell("reaction of %s to %s begins", key.queue, key.id)
	return func(err error) {
		x.world.Tell("reaction of %s to %s ends: %v", key.queue, key.id, err)
		x.mu.Lock()
		defer x.mu.Unlock()
		r := x.reacted[key]
		if r == nil {
			r = &runs{once: once}
			x.reacted[key] = r
		}
		if err == nil {
			r.successes++
		}
	}
}
