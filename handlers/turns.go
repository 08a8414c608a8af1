package handlers

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling"
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
	handling.OneAtATime(r.in, "in turn "+queue, queue, key, f)
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
	handling.ReactInOrder(r.in, "in order "+group, group, f)
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
}

const leastPatience = 30 * time.Second

// Turns says how the keys of a queue take turns; see [OneAtATime] and [ReactInOrder].
//
//	handlers.Turns(h, "sync", handlers.TurnConfig{Halt: true})
func Turns(r *Registry, queue string, cfg TurnConfig) {
	by := "turns of " + storage.Quote(queue)
	if cfg.Patience != 0 && cfg.Patience < leastPatience {
		r.fault("%s: Patience is %v; want at least %v", by, cfg.Patience, leastPatience)
	}
	if err := r.in.Turns.Configure(queue, cfg.Halt, cfg.Patience); err != nil {
		r.fault("%s: %w", by, err)
	}
}

// Fence returns the number of the turn that a handler of [OneAtATime] or [ReactInOrder] runs in. It is larger than
// those of all earlier turns of the same key. Store it with what must be sure that no process acts that stood still,
// and refuse a smaller one. It is 0 outside of such a handler.
func Fence(ctx context.Context) int64 { return handling.Fence(ctx) }
