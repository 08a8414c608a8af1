// Package limiters has limiters for the queues of a worker: a queue that few workers consume at a time, that waits
// behind a gate, that an operator pauses, or that waits while a program leaves out work.
//
//	worker.Config{Queues: map[string]worker.QueueConfig{
//		"orders":          {Limiter: limiters.Workers(1)},       // in every worker that consumes the queue
//		"bookings":        {Limiter: limiters.Gate("season")},   // nothing is taken before the opening
//		"mails":           {Limiter: pauses},                    // limiters.Pauses(...), one for all queues of a process
//		"recommendations": {Limiter: limiters.Level(&level, 1)}, // waits from level 1 on
//		"invoices":        {Limiter: worker.Limiters(pauses, limiters.Workers(2))},
//	}}
//
// While a limiter keeps a queue from being consumed, the worker asks the store for none of its messages. Messages can
// be sent to the queue, and wait in it. When the limiter begins to hold the queue, the worker hands back the messages
// that wait, and finishes those that run. That costs no attempt. Other queues don't notice.
//
// # Workers
//
// [Workers] is for queues whose messages meet in few documents: many workers lose races against one another there, and
// fold less. It is not for handlers that wait, which want many workers. It saves races, and no promise depends on it.
//
// The workers of a queue are members of a group of package coord/members, which needs no leader. Membership costs a
// dozen requests a minute for each queue and worker. Chance decides which workers are active, for each queue by itself.
//
// All workers of a queue must use Workers with the same number. Workers that know other kinds (an older version) don't
// count: a worker hands back messages of a kind that it doesn't know, so such workers form a group of their own.
//
// Another worker becomes active
//
//   - within some 10 seconds after one that stops,
//   - within some 40 seconds after one that dies,
//   - within 20 seconds after StuckAfter after one that can't receive any more, because its handlers hang or the store
//     fails. It stands by again when it has room for messages.
//
// A worker that joins may take a queue over, and now and then more workers are active than asked for. The worker that
// leaves a queue to another finishes the messages that run in its own time. When it becomes active again meanwhile,
// these messages count in its Concurrency.
//
// # Gates
//
// [Gate] holds a queue while a gate of package coord/gate is closed. An operator opens and closes the gate by "millrace
// gates", and a program by that package. To hold a queue behind two gates, combine two limiters by worker.Limiters.
//
// A change takes effect at once where the store rings. Elsewhere, and after a ring that was lost, the worker sees an
// opening within 2.5 seconds, and a closing within 30.
//
// While the store can't be read, the queue stays as it was. Until the gate has been read for the first time, and while
// its blob is no gate, the queue is held.
//
// Each queue behind a gate costs each worker some 1600 reads an hour while the gate is closed, and some 130 while it is
// open, nearly all answered "not modified".
//
// # Pauses
//
// [Pauses] holds the queues that an operator has paused by "millrace queues pause", or a program by package
// coord/pause. Programs of package host have it for each queue, without configuration.
//
// All queues of a process that share the value of Pauses share one watch of package coord/pause, which reads one blob
// some 130 times an hour. The watch runs while a worker runs. A change takes effect at once where the store rings, and
// elsewhere within 30 seconds. The laws about restarts, failures of the store, damaged blobs and the end of a pause are
// those of that package. A worker that starts takes no message before it has read the blob.
//
// # Levels
//
// [Level] holds a queue while the level of a throttle.Level is at the queue's or above. When the level falls below, the
// queue is consumed at once. Level stores nothing, and costs no request. Programs of package host have it for each
// queue that handlers.Optional names, by the level in their live settings.
package limiters
