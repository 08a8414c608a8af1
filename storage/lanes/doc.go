// Package lanes divides queues into lanes by tenant and by priority, on any store. It is what channel.Lanes and
// channel.Priorities stand on. A program writes these among its routes, and nothing else:
//
//	routes, err := channel.NewRoutes(
//		channel.Command[Buy]("purchases"),
//		channel.Lanes("purchases", 8),
//		channel.Priorities("purchases"),
//	)
//
// A lane is a queue of the store: "purchases" itself, "purchases-lane-1" and so on. [Over] is a store over the store,
// as package doorbell is. It shows all lanes as the one queue "purchases". So a worker has one consumer for it, and
// gates, pauses, poison queues, folds and operators know no lanes.
//
//	Send ──▶ hash of the tenant ──▶ purchases          ─┐
//	     ├──▶                       purchases-lane-1…7 ─┼─▶ fair turns ──▶ Receive
//	     └──▶ noisy tenants ──────▶ purchases-slow[-3] ─┘
//
// # Laws
//
//   - At least once: a message that was sent is received until it is deleted. A move into a slow lane sends it and
//     deletes it as one unit of work. Where the store isn't atomic, a crash in between repeats the message under its
//     own ID; a message whose body is a blob stays in its lane there. A message is moved at most once, before anybody
//     has had it.
//   - A lane is swept while the messages of a noisy tenant are moved out of it. Messages that came along meanwhile wait
//     for half of their visibility at most, even in a paused consumer. Then they are handed back, as when the consumer
//     stops, and that is no silent delivery.
//   - The lane is by tenant where the message has one, and else by its ID. A message stays in its lane when it is
//     rewritten.
//   - Turns are fair: lanes that have messages get the same part of the worker's time. A tenant with slow messages
//     gets fewer of them. A quiet tenant doesn't wait for another lane's backlog.
//   - Turns are weighted, never strict: High, Normal and Low get 8, 4 and 1 parts, or those of [Weigh], 1 to 100 each.
//     So Low is never starved. The slow lanes together get one turn in eight while others wait.
//   - Noisy tenants take turns among each other, too. There are 4 slow lanes. A tenant that becomes noisy gets the one
//     with the fewest, so up to 4 have one each, and more share them.
//   - A change of the weights loses nothing and moves nothing. A class may have had more than its part. After
//     the change the class still waits for the others, for the time that it has had at most.
//   - Messages that a consumer can't run stay in their lanes: one Receive brings at most as many messages of the lanes
//     below a priority as [AtMostBelow] says. A lane that it leaves out keeps its claim to turns.
//   - Lanes are work-conserving: a lane without messages costs no turn. A tenant that is alone gets all of them.
//   - A tenant is noisy while its lane has a backlog and, of the messages of the last 5 to 10 seconds, it has 30 and
//     more than a tenth. These are the thresholds of Amazon SQS for noisy neighbours. SQS counts what is in flight in
//     all consumers; one process has too few of these. After a quiet minute the tenant is an ordinary one.
//   - A change of the number of lanes loses nothing: all 16 lanes that a queue can have are received from, and the
//     slow lanes. If lanes are added, only tenants whose lane is a new one move.
//   - A lane whose calls fail doesn't hold up the others. While another one answers, they go on at once, and the lane
//     is asked again after 0.1 to 10 seconds, beside them. Receive tells each failure by an error that matches
//     storage.ErrPartial. When no lane answers, it returns the error of the store.
//   - A queue without lanes passes through untouched. Without any queue that has lanes, Over returns its argument.
//
// # Noisy tenants
//
// A worker that sees one writes its key, a hash, into the document QUEUE in the container "lanes", and a new beat every
// 15 seconds while it stays noisy. Readers watch whether the beat changes, by their own clocks. Senders and workers
// read the document at most once in 5 seconds while they send or receive, beside what they do: no message waits for it,
// and the last answer counts until the next one. Then senders put new messages into its slow lane. Workers move those
// that they meet in lanes, in large batches, and those of other tenants that come along are received first. Messages
// that were sent with a delay are not moved, so that they can be cancelled. The document holds 64 tenants at most.
// It names the slow lane of each. An older version knows the first slow lane alone, and its document
// names no slow lanes. Then each process keeps to the slow lanes that it knew. Tenants are counted in bounded memory,
// however many names they have.
//
// # Costs
//
//   - Where requests are billed, a look at an idle queue is a look at one lane, in rotation. So it costs what one queue
//     costs. A message whose ring was lost waits for up to n+4 polls; on a store without rings, each message does.
//   - Stats counts each lane, and once a minute also those that the number of lanes leaves out.
//   - A message that is sent isn't handed over to an idle worker of the same process; it is rung for, and received.
//   - Each message is read once more when it is sent and when it is received, to find its tenant.
//
// # Files
//
//   - lanes.go: the store
//   - lane.go: a lane, the names of lanes, the lane of a receipt
//   - crowd.go: who is noisy, without a store
//   - noisy.go: the document that names the noisy tenants
//   - place.go: the lane of a message
//   - turn.go: which lane is next, without a store. Within a lane the order of the inner store holds (storage/sqlite:
//     queue.go), and messages of stash.go come first
//   - weights.go: the parts of the priorities
//   - limit.go: what a consumer may not take
//   - hand.go: what was received and has not ended
//   - roster.go: which lanes are asked, and how many messages each
//   - stash.go: what came along while messages were moved
//   - move.go: which messages go to the slow lanes
//   - broken.go: lanes that fail
//   - receive.go: what a receive takes first: what is stashed, then the lanes by their turns
//   - peek.go: in which order waiting messages are shown
//   - queue.go, work.go, listen.go, bell.go: all other calls
package lanes
