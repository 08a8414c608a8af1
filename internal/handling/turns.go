package handling

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// OneAtATime registers a reaction that runs once at a time for each key; see handlers.OneAtATime.
func OneAtATime[M channel.Message](r *Registry, name, queue string, key func(M) string, f func(context.Context, M) error) {
	h := inTurn(r, name, queue, false, f)
	if h == nil {
		return
	}
	if key == nil {
		r.Faults.addf("%s: the function for the key of %s is nil", name, h.kind)
	}
	h.key = func(_ *channel.Envelope, m any) (string, bool) { return key(m.(M)), true }
}

// ReactInOrder registers a reaction that takes the events of each source in their order; see handlers.ReactInOrder.
func ReactInOrder[M channel.Message](r *Registry, name, queue string, f func(context.Context, M) error) {
	if h := inTurn(r, name, queue, true, f); h != nil {
		h.key = func(e *channel.Envelope, _ any) (string, bool) { return sourceKey(e.Source), true }
	}
}

// inTurn registers a reaction that takes turns. It returns the handler, which needs a key, or nil after a fault.
func inTurn[M channel.Message](r *Registry, name, queue string, ordered bool, f func(context.Context, M) error) *Handler {
	h := register[M](r, As{}, name, queue)
	if h == nil {
		return nil
	}
	g := Watched(r, false, f)
	h.react(r, f == nil, func(ctx context.Context, d *Delivery) error { return g(ctx, d.Message.(M)) })
	switch routed := r.Channels.Routes().Ordered(queue); {
	case ordered && !routed:
		r.Faults.addf("%s: the routes don't say that queue %s is in order: add channel.InOrder(%q) to the routes of all programs", name, queue, queue)
	case !ordered && routed:
		r.Faults.addf("%s: the routes say that queue %s is in order: use handlers.ReactInOrder, or leave out channel.InOrder", name, queue)
	}
	h.turns = r.Turns.of(queue)
	h.turns.ordered = ordered
	return h
}

// sourceKey returns the key of a source's turns: the source itself, or its hash if no key can be that long.
func sourceKey(source string) string {
	if storage.CheckKey(source) == nil {
		return source
	}
	return fmt.Sprintf("sha256/%x", sha256.Sum256([]byte(source)))
}

// defaultPatience is how long the others of a key wait for a message that should come first; see handlers.TurnConfig.
const defaultPatience = 15 * time.Minute

// QueueTurns are how the keys of queues take turns.
type QueueTurns struct {
	// TTL is how long the turn of a process lasts that has died. A test whose processes die for real sets it before its
	// worker runs. Defaults to that of package coord/keylock.
	TTL time.Duration

	channels *channel.Channels
	all      map[string]*turns // by queue
}

// turns are the turns of a queue's keys.
type turns struct {
	queue    string
	patience time.Duration // see handlers.TurnConfig
	halt     bool          // see handlers.TurnConfig
	said     bool          // by handlers.Turns
	ordered  bool
	open     func() (*keylock.Turns, error)
	lanes    func() *storage.Queue // nil: the queue has none
	clock    wire.SendersClock
}

// of returns the turns of a queue. It makes them at the first call.
func (q *QueueTurns) of(queue string) *turns {
	t := q.all[queue]
	if t == nil {
		t = &turns{queue: queue, patience: defaultPatience}
		t.open = sync.OnceValues(func() (*keylock.Turns, error) {
			return keylock.New(q.channels.Store(), queue, keylock.Config{TTL: q.TTL, Now: t.clock.Now})
		})
		t.lanes = func() *storage.Queue {
			if _, ok := q.channels.Routes().Lanes()[queue]; !ok {
				return nil
			}
			return q.channels.Store().Queue(queue)
		}
		q.all[queue] = t
	}
	return t
}

// Configure says how the keys of a queue take turns; see handlers.TurnConfig. A patience of 0 is the default.
func (q *QueueTurns) Configure(queue string, halt bool, patience time.Duration) error {
	t := q.of(queue)
	if t.said {
		return errors.New("said twice")
	}
	t.said, t.halt, t.patience = true, halt, cmp.Or(patience, defaultPatience)
	return nil
}

// Has reports that a queue has handlers whose messages take turns.
func (q *QueueTurns) Has(queue string) bool { return q.all[queue] != nil }

// MayWait is how long a worker may hold a message of a queue before its handler starts: others of its key may have the
// patience to wait for it. It is 0 for a queue without turns.
func (q *QueueTurns) MayWait(queue string) time.Duration {
	if t := q.all[queue]; t != nil {
		return t.patience / (leastRounds + 1)
	}
	return 0
}

// faults returns a fault for each queue that handlers.Turns names in vain, or that is in order by the routes and not by
// all of its handlers.
func (q *QueueTurns) faults(handled *Table) (faults []error) {
	for _, queue := range handled.Queues() {
		if q.all[queue] == nil && q.channels.Routes().Ordered(queue) {
			faults = append(faults, fmt.Errorf("queue %s: the routes say that it is in order, and no handler keeps the order: use handlers.ReactInOrder, or leave out channel.InOrder", queue))
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(q.all)) {
		oneAtATime, t := 0, q.all[queue]
		for _, h := range handled.queues[queue] {
			if h.turns != nil {
				oneAtATime++
			}
		}
		if oneAtATime == 0 {
			faults = append(faults, fmt.Errorf("turns of %s: the queue has no handler by OneAtATime or ReactInOrder", storage.Quote(queue)))
		}
		if !t.ordered {
			continue
		}
		for _, kind := range q.channels.Routes().Kinds(queue) {
			if h := handled.queues[queue][kind]; h == nil || h.turns == nil {
				faults = append(faults, fmt.Errorf("in order %s: the routes take %s to it: it needs a handler by ReactInOrder, too, or the next events would wait for it", queue, kind))
			}
		}
	}
	return faults
}

// These are the reasons for which messages wait for their turn, and what else a [TurnNote] tells.
const (
	WaitHeld   = "held"    // another message of the key is being handled
	WaitBehind = "behind"  // a message of the key comes first, and is not there yet
	WaitEarly  = "early"   // the event before it isn't done
	WaitHalted = "halted"  // the key waits for an operator
	TurnTaken  = "taken"   // a turn
	TurnGap    = "gap"     // an event waits for one that hasn't come for a while
	TurnPassed = "passed"  // others go past a message that hasn't come
	TurnSkip   = "skipped" // others go past a message that went to the poison queue
	TurnHalt   = "halts"   // a message halts its key
	TurnLost   = "lost"    // a turn was lost, or could not be ended
)

// A TurnNote tells a worker of something that it logs and counts.
type TurnNote struct {
	What    string
	Message string // its ID
	Err     error
}

// These are the longest delays of messages that wait for their turn. A worker begins with less.
const (
	heldMost    = 5 * time.Second
	behindMost  = 30 * time.Second
	troubleMost = time.Minute

	// Behind a halt a message waits for as long as its key was halted, within these limits. So it costs little, and
	// soon after a release that came soon it runs.
	haltedLeast = time.Minute
	haltedMost  = 30 * time.Minute
)

// waits returns the error of a message that waits for its turn.
func waits(why string, most time.Duration, reason string) error {
	return verdict.Wait(why, most, reason)
}

// trouble returns the error of messages whose turn can't be had because of the store. It spends no attempt.
func trouble(err error) error {
	if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrThrottled) {
		return err
	}
	return waits(WaitHeld, troubleMost, "its turn can't be had: "+err.Error())
}
