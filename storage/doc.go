// Package storage keeps everything durable: queues, blobs and tables, in one [Store] that a driver's Open returns.
//
//	store, err := sqlite.Open(ctx, "data/shop.db")
//	err = store.Queue("mails").Send(ctx, []storage.Message{{Body: body}})
//	etag, err := store.Blobs("settings").Put(ctx, "prices", body, storage.Condition{IfAbsent: true})
//
// Programs use it rarely themselves: channels, values and views stand on it. The drivers are storage/sqlite and
// storage/azure. The interfaces that a driver implements are in package storage/driver. The types here check their
// arguments, give errors their operation and resource, and find out once what a driver can do.
//
// # The life of a queued message
//
//	            Send(delay)                 Receive(visibility)
//	(nothing) -------------> delayed --> ready --------------> in flight --Delete--> (gone)
//	                            ^          ^                     |  |  ^
//	                            |          +-- visibility ends --+  |  +-- Extend: new receipt
//	                            +--------- Rewrite(body, delay) ----+
//
// A received message is hidden, not removed. Each delivery has a [Receipt]. The message belongs to the caller that
// holds its newest receipt. A receipt dies when the message is delivered again, extended, rewritten or deleted. A
// call with a dead receipt fails with [ErrReceiptStale] and changes nothing. A receipt whose visibility has merely
// ended still works, as long as nobody else has received the message.
//
// A message may have a key. Where the store finds messages by their keys ([Store.Finds]), one that nobody has received
// can be deleted by what [Queue.Find] returns.
//
// Where the store rings ([Store.Rings]), a consumer of a queue polls rarely ([Store.Listen]), and processes tell each
// other what needn't be stored ([Store.Subscribe], [Store.Publish]).
//
// # Laws
//
//   - A nil error means that the effect is durable.
//   - At least once: a message is delivered until it is deleted. Order is not promised.
//   - Unknown outcomes: an error that is neither about content nor about a condition leaves open whether the call
//     took effect. Callers repeat the call, or read back; IDs and ETags make repeats harmless.
//   - Content first: names, keys, sizes and delays are checked before anything is done. A call refused with
//     [ErrInvalid] or [ErrTooLarge] had no effect, a batch included.
//   - A context that has ended before the call is an error without an effect. A context that ends during the call
//     ends the wait, with an error that matches context.Cause; the call may still take effect.
//   - All methods may be called concurrently. The store keeps nothing that is handed in and shares nothing that it
//     hands out.
//   - An error means that the store has given up on the call: it hides short contention itself.
package storage
