// Package process runs work of many steps that survives everything, and that can be seen while it runs: an order that
// is reserved, charged, packed, picked up and shipped.
//
//	func (s Shop) fulfil(p *process.Plan[Order]) {
//		reserve := process.Ask(p, "reserve", Order.Reserve, Order.Reserved).Within(time.Minute) // a command
//		process.Refused(reserve, Order.NoStock)
//		process.UndoAsk(reserve, Order.Release)
//		process.Do(p, "charge", s.Bank.Charge, Order.Charged).Undo(s.Bank.Refund) // an agent
//		process.Wait(p, "picked", Order.Picked).Within(48 * time.Hour)            // a signal
//		process.Do(p, "ship", s.ship, Order.Shipped).By("carrier")
//	}
//
//	channel.NewRoutes(process.Route("fulfil", "carrier"), // and those of the commands and events
//		channel.Command[Reserve]("stock"), channel.Event[Reserved]("fulfil"), channel.Event[NoStock]("fulfil"))
//	err := process.Register(h, "fulfil", process.Version(2, s.fulfil), process.Version(1, s.fulfilV1))
//
//	orders := process.Open[Order](channels, "fulfil") // anywhere
//	err = orders.Start(ctx, "o17", order)
//	err = orders.Signal(ctx, "o17", Picked{By: "ada"})
//	err = orders.Cancel(ctx, "o17", "ada", "the customer called")
//
// The verbs are [Do] (an agent), [Ask] (a command that events answer), [Wait], [Sleep], [SleepUntil], [Then] (a pure
// function), [If], [All], [Any], [Each] and [EachFrom] (an agent for each item), [Split] (a plan for each item),
// [Child] and [Pivot]. The methods of [Step] say how long a step may take, and what happens when it fails.
//
// An agent is a handler: it may be called again, with the same [Key], and its context ends at the deadline. Its error
// means another attempt, after a delay; [Refuse] and handlers.Poison mean none. handlers.Retry chooses the delay, and
// handlers.Later spends no attempt. The functions that make items and commands, and that take results into the state,
// are pure.
//
// A step is undone if it had a success. After an error nobody knows whether the call had its effect, and a step that
// fails for good has nothing to undo. So where an effect must not stay, divide it: one step gets a number and has the
// Undo, and the next one acts under that number.
//
// # How it works
//
// A plan is data, and an instance is a document: the state, and an event for each step that was begun. Messages are
// folded into it, as into any value object: a start, the end of an agent's attempt, an alarm, a signal. A fold records
// which steps begin next, and the messages that begin them go out in the same unit of work. Nothing is replayed, so
// there is nothing to be deterministic about, and new code meets running instances as data.
//
// # Laws
//
//  1. One instance, one document. The same start again is once; another input under its ID is refused. An instance that
//     has ended is known as ended for its retention, and its ID for 30 days more.
//  2. Advance is pure and total. Advance reads no clock: its caller passes the time, and the time of an alarm counts if
//     it is later. A message that means nothing to the document changes nothing. A panic in a function of the plan
//     makes the instance stuck at that step, and its result is kept.
//  3. A step is begun once an attempt, and ended once. Its begin goes out with the write that records it. Its key is
//     that of plan, instance, run and path, and the same for all attempts.
//  4. The write that ends the last child ends the parent, and begins what follows. So the child that ends last
//     gathers the results, once.
//  5. No success is lost. The first success of any attempt ends the step. One that comes after the step's end in
//     another way is undone. A second success with another effect is undone, too. If the success doesn't name its
//     effect ([Effecter]), the step is marked instead. An agent that was given up is heard when it ends. While the
//     store is away, its process keeps the word, and doesn't call the agent again. The instance is kept for a day while
//     such a word may come; what comes later goes to the poison queue.
//  6. No open step is without a time at which somebody looks, unless it is Forever. The document has one alarm, never
//     later than its earliest deadline. A step whose message is in the poison queue is stuck until that is sent back.
//  7. Deadline, success, failure, cancel: the first one folded decides.
//  8. Attempts are counted by the document. They go on until the step's time is over, one a minute at least, unless
//     [Step.Attempts] bounds them. An error of the store spends none. An agent's error is a message. The counters of
//     queues catch agents that kill their workers, and then the attempt has failed.
//     An attempt whose outcome is unknown, as package guard says it, is not repeated by a guess, nor does it fail: the
//     step is stuck until somebody says that it was done, or not, or to do it again, or until its agent answers.
//  9. An agent is called at least once; its key is always the same. Messages that it sends have the same IDs in each
//     attempt, and package guard makes its calls by the key. Its context ends at the earliest of Try, Within, and the
//     loss of its message. While it goes on all the same, its process doesn't call it again.
//  10. Undo goes in the reverse order of ending; steps of different branches of an [All] are undone side by side. An
//     undo is tried for a day, and can't be cancelled. One that fails for good makes the instance stuck.
//  11. Cancel wins over steps that have not begun. A step at work has 30 seconds to answer. Then all is undone, or
//     kept, as the plan says. It reaches parts as messages, and each of them answers before the instance ends.
//  12. Early is kept, late is noted. A signal before its Wait waits in the document. So does a signal or a cancel
//     before the start, for a day.
//  13. A version never changes its meaning. Its structure is stored when it is first registered. A program whose
//     version is another one doesn't start. A worker that doesn't have an instance's version hands the message back.
//  14. The acts of operators are messages, and stand in the document with their reasons. A retry keeps the key of the
//     step, because the step may have had its effect. If the step is known to have failed, the retry has a new key. A
//     rerun has a new key.
//  15. All is bounded: the document (256 KiB), items at once, failures remembered, depth (8). A result that doesn't fit
//     makes its step stuck, and nothing else. Early signals have room of their own (64, of 48 KiB together), and one
//     that finds none is refused. So a start always fits.
//     Beyond 128 KiB, steps that may be undone lie in rows, and come back for that.
//  16. A page is an instance. Items beyond 1,024 lie in pages; a page tells its parent when it has ended.
//  17. The sweep only asks. Every ten minutes it nudges instances whose alarm is overdue. Once a day it begins to look
//     at all documents, 500 at a time, and mends what the index has lost. A clock that was wrong stops no sweeps.
//  18. Views never hold up a step. The index and the trail are written from messages, and are some seconds behind.
//     Where the store is atomic, the unit of work also writes the row of an instance that goes on. A [Do] is in the
//     index if it takes more than five seconds.
//
// # What it costs
//
// A step is two messages and two folds: its begin, and its end. An instance has an alarm in flight at most for each
// [Step.Within]. Each change of its row in the index costs a message, unless the unit of work has the row. Steps that
// have ended shrink to a line, and beyond 64 go to rows. An undo in a row costs a part of two messages more.
//
// # Files
//
//   - plan.go, verbs.go, fan.go: the words that a plan is written in; hearing.go: the events and commands of its steps
//   - version.go, upgrade.go: versions, and how an instance goes on by a newer one; structure.go: what is
//     stored of each
//   - route.go, register.go: the queues, and which handler takes which message; alone.go: a plan by itself, for a test
//   - host.go: how a message finds its instance and version; what it does there is decided in internal/flow
//   - poisoned.go: what follows from a message in the poison queue
//   - agent.go, calls.go: how an agent is called, and how its word is kept until it is sent
//   - index.go, stuck.go, record.go: the keeper of the index and the trail; sweep.go: how a lost alarm or row is found
//   - instances.go: what a program does with its instances
//   - look.go, query.go, stream.go, reader.go, timeline.go, trace.go: what a tool sees; operate.go: what an
//     operator does
//   - metrics.go: what is counted
package process
