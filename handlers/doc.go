// Package handlers is where a program says what it does with messages: the registry of typed handlers.
//
//	r := handlers.NewRegistry(channels, handlers.Config{})
//	handlers.Decide(r, stock, Buy.Key, Stock.Buy, Bought{}) // a command changes a value object and emits messages; pure
//	handlers.On(r, "stock", stock, Sent.Key, Stock.Sent)     // likewise, an event
//	handlers.React(r, "audit", audit)                       // an event, or a command, has an effect outside
//	handlers.ReactOnce(r, "mail", sendMail)                 // likewise, and the effect should not be repeated
//	handlers.Reply(r, "bank", charge, Charged{})            // likewise, and it answers by messages
//	handlers.OneAtATime(r, "sync", Sync.Shop, sync)             // likewise, and it runs once at a time for each key
//	handlers.ReactInOrder(r, "sms", text)                   // likewise, in the order in which a value object emits
//	views.Project(r, sold, Bought.Key, count)               // views.Project and views.Latest fold events into views
//	handlers.OnPoison(r, refund, Refund{})                  // a compensation for messages that are given up
//	handlers.Optional(r, "audit", 1)                        // a queue that waits while the program leaves out work
//
// A handler says how its message ends by the error that it returns:
//
//	nil                    done: the message is deleted
//	Retry(after, err)      not done, try again after a delay of its choice; spends an attempt
//	Later(after, reason)   not yet; spends no attempt
//	Poison(reason, err)    never: to the poison queue at once
//	any other error        not done, try again; spends an attempt; the worker chooses the delay
//
// A business refusal ("no tables left") is an event, not an error.
//
// # How handlers run
//
//   - Whatever a handler does ends in a verdict for its message alone.
//   - The user's code runs on goroutines that may be lost. A panic is a failed attempt. So is runtime.Goexit (a test's
//     FailNow), and so is an error whose own methods panic.
//   - A returned error's methods are called once, on such a goroutine. All that the framework needs of it is copied
//     there.
//   - A handler that goes on after Config.Timeout is given up. That is a failed attempt, too. A key function or an
//     upgrade that hangs is given up after 20 to 30 seconds.
//   - [Middleware] runs once a delivery, around the whole of its handling.
//   - A handler that runs knows which attempt this is, and how many its queue gives: see [Attempt].
//   - Messages for one document that were received together are folded in one read-modify-write; see package values.
//     When a fold hangs, the others are handed back. Reactions run alone.
//   - Messages that take turns ([OneAtATime], [ReactInOrder]) run one after the other for each key, in all processes;
//     see package coord/keylock. So a limit for each key can be kept in memory while one worker consumes the queue
//     (limiters.Workers of package worker/limiters): no other process spends it.
//   - The answer of a [Reply] is sent in the unit of work that ends its message: both happen or neither, as far as the
//     store is atomic. The effect outside comes before.
//
// # What decisions emit
//
// [Decide] and [On] emit events and commands, to be handled at once or later (channel.After, channel.At).
//
//   - The types are declared with the decision, and have routes, or the program doesn't start.
//   - The emissions are sent if the value is written, and only then. Each is one message, however often the decision's
//     message comes or is folded again.
//   - An emission is due at one time, that of the decision that was written, and comes no earlier. So a timer is a
//     delayed command for the value object itself. It comes even if nothing waits for it any more: its decision looks
//     at the value.
//   - Each subscriber group applies an event once to the value object of its On. Two groups that name the same value
//     object apply the event twice, once each.
//   - Messages come in any order: the answer may come after the timer.
//   - An emission may choose its ID (channel.Identified), by which a delayed one can be cancelled. Two emissions of one
//     ID are one message, whichever decisions emit them. One that goes back to its own value object needs another ID
//     than the message that brought it about.
//
// # Files
//
//	registry.go    Registry and Config: what a program has registered, and whether it fits the routes
//	decide.go      Decide and On: which document a message changes, and what that emits; emits.go checks what is emitted
//	react.go       React, ReactOnce and Reply; Upgrade
//	turns.go       OneAtATime and ReactInOrder, and what a message does to the others of its key
//	errors.go      what a handler says by its error, and the reasons for which messages go to the poison queue
//	poison.go      OnPoison: the compensation of a message that is given up
//	middleware.go  what runs around all handlers
//	attempt.go     what a handler knows of its message's deliveries
//	optional.go    which queues wait while the program leaves out work
//
// How all of this runs is in internal/handling, whose comment says which of its files decides what.
package handlers
