// Package storage keeps everything durable: queues, blobs and tables, in one [Store] that a driver's Open returns.
//
//	store, err := sqlite.Open(ctx, "data/shop.db")
//	err = store.Queue("mails").Send(ctx, storage.Message{Body: body})
//	etag, err := store.Blobs("settings").Put(ctx, "prices", body, storage.Condition{IfAbsent: true})
//
// Programs use it rarely themselves: channels, values and views stand on it. The drivers are storage/sqlite and
// storage/azure; what a driver writes is package storage/driver. The types here check what they are given, give errors
// their operation and resource, and find out once what a driver can do.
//
// # The life of a queued message
//
//	            Send(delay)                 Receive(visibility)
//	(nothing) ─────────────▶ delayed ──▶ ready ──────────────▶ in flight ──Delete──▶ (gone)
//	                            ▲          ▲                     │  │  ▲
//	                            │          └── visibility ends ──┘  │  └── Extend: new receipt
//	                            └───────── Rewrite(body, delay) ────┘
//
// A received message is hidden, not removed. Each delivery has a [Receipt]; the message belongs to
// whoever holds the newest receipt. A receipt dies when the message is delivered again, extended,
// rewritten or deleted; using a dead one is [ErrReceiptStale] and changes nothing. A receipt whose
// visibility has merely ended still works for as long as nobody else has received the message.
//
// # Laws
//
//   - What a nil error acknowledged is durable.
//   - At least once: a message is delivered until it is deleted. Order is not promised.
//   - Unknown outcomes: an error that is neither about content nor about a condition leaves open whether the call took
//     effect. Callers repeat the call, or read back; IDs and ETags make repeats harmless.
//   - Content first: names, keys, sizes and delays are checked before anything is done. A call refused with [ErrInvalid]
//     or [ErrTooLarge] had no effect, a batch included.
//   - A context that has ended before the call is an error without an effect. One that ends during the call ends the
//     wait, with an error that matches context.Cause; the call may still take effect.
//   - Everything may be used concurrently. Nothing that is handed in is kept, nothing that is handed out is shared.
//   - What the store returns as an error it has given up on: short contention is hidden below.
package storage
