// Package signal sends short messages to the processes that wait for them at this moment, on any *storage.Store that
// rings. Nothing is stored.
//
//	l, err := signal.Listen(ctx, store, "orders.*.paid", "stop")
//	if err != nil {
//		return err
//	}
//	defer l.Close()
//	s, err := l.Any(ctx) // the first signal; l.All(ctx): one for each pattern; l.Try(): a look without waiting
//
// And elsewhere, in this process or in another:
//
//	n, err := signal.Broadcast(ctx, store, "orders.eu.paid", data) // n listeners took it
//	ok, err := signal.One(ctx, store, "orders.eu.paid", data)      // exactly one took it; false: nobody waits
//
// The end of ctx is the time limit. [Any] and [All] are for a single wait.
//
// # Names
//
// A name is segments joined by dots. A segment is made of A-Z, a-z, 0-9, - and _. In a pattern a whole segment may be
// *, which is any one segment. The last segment may be >, which is one or more.
//
//	orders.*.paid   orders.eu.paid, but not orders.paid
//	orders.>        orders.eu and orders.eu.paid, but not orders
//
// # How it works
//
// A signal is told on the topic "signals" (storage.Store.Publish), and each listener picks what it wants. A listener
// keeps up to 64 signals until they are asked for. While it is full, it takes no more.
//
// # Laws
//
//   - At most once: a listener never gets a signal twice. A signal is never sent a second time, even if the answer to
//     the first was lost; then the error says that it may have been heard.
//   - Nothing is stored: a signal that is sent before Listen has returned is not heard. A process that must not miss
//     it waits for a gate (coord/gate) or receives from a queue.
//   - Ready before it returns: a signal that is sent after Listen has returned is heard, where datagrams pass between
//     the two processes. Where none pass, Broadcast and One say that a process listens and can't be reached; Listen
//     can't know.
//   - One is exactly one: of the listeners that would take a signal one gets it, at random, and never two. A process
//     that doesn't answer in time is passed over.
//   - A full listener is counted out: n counts the listeners that took the signal. At least n took it, because a
//     process whose answer is lost isn't counted.
//   - The end of ctx loses nothing: a signal that a listener took stays there for its next call.
//   - A lost connection is an error ([ErrLost]), never silence. Signals that were taken before come first.
//
// A signal that was taken is lost if its process dies before it has handled it, or never asks for it. One picks among
// listeners, and doesn't know how busy their processes are.
//
// # Metrics
//
// The store counts signals: millrace_publications_total with the topic "signals"; see cost.Collector. An operator sends
// them by "millrace signals send".
//
// # Cost
//
// Sending:
//
//   - In one process: no request.
//   - Between processes on one SQLite file: a message on a socket for each process that listens. One asks them first,
//     which is another message for each.
//   - On Redis: likewise through the server that the store uses, the master. A listener whose connection a failover
//     cuts is told so ([ErrLost]), and listens again.
//   - On Azure: likewise with datagrams of the doorbell, and one request that reads its table.
//   - A process that stands still delays One by a quarter of a second, and Broadcast by a second.
//
// Listening costs nothing on SQLite. On Azure the process's first listener makes two requests: one writes the
// doorbell's row, and one looks for the rows of dead processes. The row is then renewed every four minutes, however
// many listeners there are.
package signal
