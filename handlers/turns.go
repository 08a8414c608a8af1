package handlers

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
	"github.com/millrace-go/millrace/storage"
)

// OneAtATime registers a reaction that runs once at a time for each key, in all processes together. The queue must be
// among the kind's routes. Several kinds of a queue share the turns of their keys.
//
//	handlers.OneAtATime(h, "sync", func(c Sync) string { return c.Shop }, sync)
//
// It keeps these laws:
//
//   - While the reaction runs for a key, no other of that key does. [Fence] is for what must be sure of that, even
//     where a process stood still.
//   - Messages of a key that a worker has in hand run in the order in which they arrived. A message that failed
//     keeps its place: the others wait until it is done, or in the poison queue. A message that is handed back
//     because another worker has the turn, or whose worker died, may be overtaken. Where that matters, let one
//     worker consume the queue (limiters.Workers), or use [ReactInOrder].
//   - A message that waits spends no attempt, and costs no other key anything.
//   - [Turns] says what a message does to its key when it goes to the poison queue. Sent back from there, it takes its
//     turn as any other.
//   - The reaction may run again for a message, as that of [React]. A handler that hangs keeps its turn until it ends,
//     or its process does.
//   - A key is 1 to 256 bytes of valid UTF-8; see storage.CheckKey. A message with another key goes to the poison
//     queue. The function for the key also gets messages that their own Check refuses, or that have killed workers.
func OneAtATime[M channel.Message](r *Registry, queue string, key func(M) string, f func(context.Context, M) error) {
	oneAtATime(r, "in turn "+queue, queue, false, keyOf(key), f)
}

// ReactInOrder registers a reaction to the events of value objects that takes those of each one in the order in which
// it emitted them, one at a time. The group's queue must be among the kind's routes, and the routes must have
// channel.InOrder for it: then each event names the one before it to this queue.
//
//	channel.Event[Sent]("sms"), channel.InOrder("sms") // in the routes
//	handlers.ReactInOrder(h, "sms", text)
//
// It keeps these laws:
//
//   - An event begins after the one before it is done, or others went past that: see [Turns]. Until then it is handed
//     back. That spends no attempt, and costs other value objects nothing.
//   - An event that is done already is not run again, however late it comes. The process may die after an event and
//     before that is noted: then it runs again, as that of [React], and before the next one.
//   - An event that others went past (it was poisoned, or came too late) runs when it comes, out of order.
//   - An event outside of the order runs in turn when it comes: one that was sent with a delay, one that no value
//     object emitted, or one from a program whose routes lack channel.InOrder. So order begins when all programs
//     that emit events have it.
//   - An event that goes to the poison queue without its handler does so in its turn, too: its envelope has its place.
//   - All kinds that the routes take to the queue must have such a handler.
func ReactInOrder[E channel.Message](r *Registry, group string, f func(context.Context, E) error) {
	oneAtATime(r, "in order "+group, group, true, func(e *channel.Envelope, _ E) (string, bool) { return sourceKey(e.Source), true }, f)
}

// sourceKey returns the key of a source's turns: the source itself, or its hash if no key can be that long.
func sourceKey(source string) string {
	if storage.CheckKey(source) == nil {
		return source
	}
	return fmt.Sprintf("sha256/%x", sha256.Sum256([]byte(source)))
}

// oneAtATime registers a reaction that takes turns.
func oneAtATime[M channel.Message](r *Registry, name, queue string, ordered bool, key func(*channel.Envelope, M) (string, bool), f func(context.Context, M) error) {
	g := watched(r, false, f)
	h := react[M](r, name, queue, channel.KindOf[M](), f == nil, func(ctx context.Context, d *Delivery) error { return g(ctx, d.Message.(M)) })
	if h == nil {
		return
	}
	if key == nil {
		r.fault("%s: the function for the key of %s is nil", name, h.kind)
	}
	h.key = func(e *channel.Envelope, m any) (string, bool) { return key(e, m.(M)) }
	h.turns = turnsOf(r, queue)
	switch {
	case ordered && !r.channels.Routes().Ordered(queue):
		r.fault("%s: the routes don't say that queue %s is in order: add channel.InOrder(%q) to the routes of all programs", name, queue, queue)
	case !ordered && r.channels.Routes().Ordered(queue):
		r.fault("%s: the routes say that queue %s is in order: use handlers.ReactInOrder, or leave out channel.InOrder", name, queue)
	}
	h.turns.ordered = ordered
}

// TurnConfig is how the keys of a queue take turns. The zero TurnConfig is that of a queue without one.
type TurnConfig struct {
	// Halt stops a key when one of its messages goes to the poison queue, for whatever reason: its handler has failed
	// for good, its workers died of it, or it can't be decoded. The others of that key wait until that message is sent
	// back and done, or until an operator releases the key (millrace turns release). Other keys go on. A message whose
	// key nobody can know halts nothing, and the log says so: an envelope that can't be decoded, and by OneAtATime a
	// body that gives no key. A message of unknown outcome goes to the poison queue even if its halt can't be written:
	// in order the others then wait for it as Patience says, and by OneAtATime they go on. Defaults to going on with
	// the next message.
	Halt bool

	// Patience is how long the others of a key wait for a message that should come first and doesn't: because it was
	// deleted, say. Then they go past it, or the key is halted if Halt says so. It counts from when the message was to
	// come, while one of the others comes and goes at least three times, each time for a third of it at most. So a
	// pause of the queue and a long backlog don't use it up; under a backlog it lasts longer. Where the queue has lanes
	// or priorities, it also lasts until no lane holds a message from before, for up to 24 hours. Defaults to 15
	// minutes; at least 30 seconds.
	Patience time.Duration

	// TTL is how long the turn of a process lasts that has died: others get it 7/6 of that time after they have seen
	// its last sign. Defaults to 30 seconds; 3 seconds to 1 minute.
	TTL time.Duration
}

const (
	defaultPatience = 15 * time.Minute
	leastPatience   = 30 * time.Second
)

// Turns says how the keys of a queue take turns; see [OneAtATime] and [ReactInOrder].
//
//	handlers.Turns(h, "sync", handlers.TurnConfig{Halt: true})
func Turns(r *Registry, queue string, cfg TurnConfig) {
	by := "turns of " + storage.Quote(queue)
	if cfg.Patience != 0 && cfg.Patience < leastPatience {
		r.fault("%s: Patience is %v; want at least %v", by, cfg.Patience, leastPatience)
	}
	if err := keylock.CheckTTL(cfg.TTL); err != nil {
		r.fault("%s: %w", by, err)
	}
	t := turnsOf(r, queue)
	if t.said {
		r.fault("%s: said twice", by)
	}
	cfg.Patience = cmp.Or(cfg.Patience, defaultPatience)
	t.said, t.cfg = true, cfg
}

// Fence returns the number of the turn that a handler of [OneAtATime] or [ReactInOrder] runs in. It is larger than
// those of all earlier turns of the same key. Store it with what must be sure that no process acts that stood still,
// and refuse a smaller one. It is 0 outside of such a handler.
func Fence(ctx context.Context) int64 {
	n, _ := ctx.Value(fenceKey{}).(int64)
	return n
}

type fenceKey struct{}

// turns are the turns of a queue's keys.
type turns struct {
	queue   string
	cfg     TurnConfig
	said    bool // by Turns
	ordered bool
	open    func() (*keylock.Turns, error)
	lanes   func() *storage.Queue // nil: the queue has none
	clock   sendersClock
}

// turnsOf returns the turns of a queue.
func turnsOf(r *Registry, queue string) *turns {
	t := r.turns[queue]
	if t == nil {
		t = &turns{queue: queue, cfg: TurnConfig{Patience: defaultPatience}}
		t.open = sync.OnceValues(func() (*keylock.Turns, error) {
			return keylock.New(r.channels.Store(), queue, keylock.Config{TTL: t.cfg.TTL, Now: t.clock.now})
		})
		t.lanes = func() *storage.Queue {
			if _, ok := r.channels.Routes().Lanes()[queue]; !ok {
				return nil
			}
			return r.channels.Store().Queue(queue)
		}
		r.turns[queue] = t
	}
	return t
}

// faultyTurns returns a fault for each queue that Turns names in vain, or that is in order by the routes and not by all
// of its handlers.
func faultyTurns(r *Registry) (faults []error) {
	for _, queue := range r.Queues() {
		if r.turns[queue] == nil && r.channels.Routes().Ordered(queue) {
			faults = append(faults, fmt.Errorf("queue %s: the routes say that it is in order, and no handler keeps the order: use handlers.ReactInOrder, or leave out channel.InOrder", queue))
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(r.turns)) {
		oneAtATime, t := 0, r.turns[queue]
		for _, h := range r.handlers[queue] {
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
		for _, kind := range r.channels.Routes().Kinds(queue) {
			if h := r.handlers[queue][kind]; h == nil || h.turns == nil {
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
	return &LaterError{After: most, Reason: reason, wait: why}
}

// trouble returns the error of messages whose turn can't be had because of the store. It spends no attempt.
func trouble(err error) error {
	if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrThrottled) {
		return err
	}
	return waits(WaitHeld, troubleMost, "its turn can't be had: "+err.Error())
}
