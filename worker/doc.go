// Package worker hosts handlers: it receives messages, runs what is registered for them, and ends each delivery
// by its verdict. Any number of workers may consume the same queues, in one process or many.
//
// # The states of a message in a worker's hands
//
//	Receive ─▶ waiting ─▶ running ─▶ ended: deleted · rewritten (again, with delay) · poisoned
//	              │          │
//	              │          └─ ownership ended: dropped; whoever has the message now decides
//	              └─ stopping: handed back at once
//
// A message is in hand from Receive until its delivery has ended. While it is, its visibility is renewed every
// third of it. A worker owns a message from the start of the last call that gave it the message, for the
// visibility less a margin: when it can't renew in time, the handler's context ends with [ErrOwnershipLost].
//
// # Laws
//
//   - Nothing is deleted but what was handled or written to the poison queue. Nothing loops: attempts and
//     silent deliveries are bounded. (On SQLite a power failure may take back the count of a delivery, so what brings the whole
//     machine down, and not only its process, may come more often.)
//   - Two counters. Attempts: a handler said no (Config.MaxAttempts). Silent deliveries: nobody said
//     anything, because the worker died or lost the message (Config.MaxDeliveries). What a worker hands back
//     (a shutdown, a lost race, a store that is down, a kind it doesn't know yet) counts as neither.
//   - A message that kills its worker takes no other one with it into the poison queue. After three silent
//     deliveries a message is a suspect: a worker has one of those in hand, hands others back, and
//     receives nothing while that one runs (for StuckAfter at most) but what is handed over as it is sent.
//   - Messages for one document that are in hand together are folded in one read-modify-write, and one
//     worker doesn't race with itself: a document has one fold at a time.
//   - Whatever the user's code does ends in a verdict for its message alone: it returns, panics, ends its goroutine or never
//     returns. A handler that hangs is given up, and its message is poison after the third time. As many as run at a time may
//     hang; then the worker takes nothing more off that queue, and Healthy says so.
//   - What fails is logged here, in one place, by whomever it was raised: when it begins, seldom while it goes on, and when
//     it is over.
//   - A worker takes no more than it can soon run. How many it holds follows from how long they wait: when
//     messages wait long it holds fewer, and leaves the others to other workers.
//   - Where Config.ActiveWorkers says so, some workers consume a queue and the others stand by. Nothing that is promised
//     depends on it: it saves races. Who leaves a queue to another finishes what is running, in its own time, and hands back
//     what waits; when the queue is its own again meanwhile, it runs Concurrency handlers besides.
//   - Idle costs next to nothing: the worker waits as package storage/inbox does, for rings, for what the store hands over
//     as it is sent, and by polls that become rare.
//   - Stopping: no more is received; what waits is handed back; what runs may finish within DrainTimeout,
//     then its context ends with [ErrDraining] and it is handed back without spending an attempt. Outcomes
//     are still recorded, on a context of their own.
package worker
