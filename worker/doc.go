// Package worker hosts handlers. A worker receives messages, runs the handlers that are registered for them, and ends
// each delivery by the handler's verdict. Any number of workers may consume the same queues, in one process or in many.
//
//	w, err := worker.New(registry, worker.Config{}) // reports every fault of the registry and the Config
//	err = w.Run(ctx)                                // works until ctx ends, then stops in order
//	err = w.Healthy()                               // from another goroutine: an error asks for a restart of the program
//
// Queues may have settings of their own. A [Limiter] says whether and how much a worker may take off a queue, and may
// change that while the worker runs.
//
//	worker.Config{Queues: map[string]worker.QueueConfig{
//		"mails":  {Concurrency: 500},                           // handlers that wait
//		"orders": {Concurrency: 4, Limiter: limiters.Workers(1)},    // one worker at a time; see package limiters
//		"bills":  {Limiter: worker.Limiters(officeHours, liveLimits)}, // the user's own
//	}}
//
// # The three rooms of a consumer
//
// Each queue has a consumer of its own, in three parts. Each knows the next one only.
//
//	intake             ─▶ hand                       ─▶ settler
//	limiters, room, inbox    messages, groups, renewals    outcomes: deleted, rewritten, poisoned
//
// The intake takes messages while its limiters allow that and the hand has room. The hand runs handlers, and keeps the
// messages invisible to other workers meanwhile. The settler records how each delivery ended.
//
// # The states of a message in a worker's hands
//
//	Receive ─▶ waiting ─▶ running ─▶ ended: deleted · rewritten (tried again after a delay) · poisoned
//	              │          │
//	              │          └─ ownership ended: dropped; the worker that has the message now decides
//	              └─ stopping or paused: handed back at once
//
// A message is in hand from Receive until its delivery has ended. Until then the worker renews its visibility after
// every third of Config.Visibility. Each receive or renewal gives the worker the message for the visibility less a
// margin. The time counts from the start of the call. When it can't renew in time, the handler's context ends with
// [ErrOwnershipLost].
//
// # Laws
//
//   - The worker deletes only messages that were handled, written to the poison queue, or cancelled.
//   - No message comes back for ever: attempts and silent deliveries are bounded. On SQLite a power failure may take
//     back the count of a delivery. So a message that brings down the whole machine, and not only its process, may come
//     more often.
//   - There are two counters. An attempt is spent when a handler says no (Config.MaxAttempts). A delivery is silent
//     when it ended without a report, because the worker died or lost the message (Config.MaxDeliveries). A message
//     that a worker hands back counts as neither. The worker hands it back when it stops or is paused, when it lost a
//     race, when the store is down, or when it doesn't know the kind yet.
//   - A message that comes before it is due is handed back before anything else of it is looked at. No delivery before
//     its due time counts, not even one that killed the worker. The store keeps short delays itself. A delay that is
//     too long for the store is measured by the clocks of the workers. A difference of a minute between two clocks has
//     no effect. A worker whose clock is further behind runs the message late by that difference.
//   - The entry of a message in the poison queue, and the compensation by handlers.OnPoison, are one unit of work.
//     Where the store isn't atomic, a worker that finds the entry ends the unit, and no handler runs. Whatever the
//     function of OnPoison does, it keeps no message out of the poison queue.
//   - A message of unknown outcome (handlers.ReasonOutcomeUnknown) goes to the poison queue although its worker stops,
//     and as long as no other worker has received it. While the store fails, it keeps its handler's place, and the
//     worker tries again every 3 seconds at most. A worker that stops tries until DrainTimeout is over.
//   - A message that kills its worker takes no other message with it into the poison queue. After three silent
//     deliveries a message is a suspect. A worker has one suspect in hand and hands others back. While the suspect
//     runs, for StuckAfter at most, the worker receives only messages that the store hands over as they are sent.
//   - Messages for one document that are in hand together are folded in one read-modify-write. One worker doesn't race
//     with itself: a document has one fold at a time.
//   - Messages of one key that take turns (handlers.OneAtATime) run one after the other, under a turn that no other
//     process has. Their deliveries end after the turn does. Those that have to wait are handed back: after 250 ms at
//     first, and then after more.
//   - The user's code may return, panic, end its goroutine or never return. Each ends in a verdict for its message
//     alone. A handler that hangs is given up, and so is code that decodes a message or finds its key. Its message is
//     poison after the third time. Messages that were received or folded with it are handed back. As many handlers may
//     hang as run at a time; then the worker takes no more messages off that queue, and Healthy returns an error.
//   - All failures are logged in this package: when one begins, seldom while it goes on, and when it is over.
//   - A worker holds only messages that it can run soon. The number follows from how long they wait: when messages wait
//     long, the worker holds fewer and leaves the others to other workers. When handlers become slow, it hands back, at
//     no attempt, the messages that have waited for a minute.
//   - A [Reserve] keeps handlers free: messages below its priority hold at most Concurrency less the Reserve at a time.
//     An urgent message begins at once while a handler is free, however many others wait. The others use all the rest.
//     Those that can't run stay in the queue, and keep their turns. Without a Reserve this costs nothing.
//   - Whatever a [Limiter] does, its last limits stay in force. No law depends on a limiter. When a queue is paused, or
//     limits fall, running handlers finish in their own time, and count in Concurrency until they do.
//   - An idle worker costs next to nothing. It waits as package storage/inbox does: for rings, for messages that the
//     store hands over as they are sent, and by polls that become rare.
//   - A worker that stops receives no more messages and hands back those that wait. Running handlers may finish within
//     DrainTimeout. Then their contexts end with [ErrDraining], and their messages are handed back without spending an
//     attempt. Outcomes are still recorded, on a context of their own.
//
// # Files
//
//	worker.go    New, Run and Healthy; consumer.go puts the rooms of a queue together
//	config.go    the fields and defaults of Config; faults.go says what Config may be
//	limiter.go   what a Limiter may say; board.go opens the limiters of a queue and keeps their limits
//	intake.go    when messages are taken, and how many: room.go by the time that they wait, reserve.go for urgent ones
//	hand.go      what is in hand, and how the hand closes
//	open.go      decodes a message, counts deliveries that nobody reported, finds the handler
//	fetch.go     what a message needs before its handler is known; bodies.go has room for large bodies
//	groups.go    which messages are folded together or take turns
//	backlog.go   what waits for a goroutine of crew.go; starts.go says whether a handler may start
//	run.go       one message, or one fold; keyturn.go runs the messages of a key in a turn
//	claim.go     whose a message is, and what a lost claim means; message.go has the rest; renew.go renews claims
//	suspects.go  messages that may kill their workers, which gate.go lets run alone; hung.go counts lost handlers
//	unstarted.go which messages go back because they have waited for long
//	settle.go    how a delivery ends: when the next attempt comes, and when a message is given up. Which errors count as
//	             attempts stands in internal/handling/verdict
//	delay.go     the delays that settle.go takes where nobody chose others
//	due.go       what is received before its due time, or was cancelled; giveup.go moves to the poison queue
//	delete.go    deletes in batches; finish.go counts, logs and releases what has ended
//	log.go       what is logged, and trouble.go how seldom; pausing.go logs limiters, partly.go a store that half fails
//	metrics.go   what is counted, with counts.go; trace.go has the spans; setup.go has what the rooms share
package worker
