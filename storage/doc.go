// Package storage holds the ports behind which Millrace keeps everything durable: queues, blobs and
// tables. A driver (storage/sqlite, storage/azure) implements them; nothing above this floor knows which.
// It imports the standard library only.
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
// # Laws of every driver
//
//   - Durable: what a nil error acknowledged survives the death of the process, and of the machine
//     where the driver says so.
//   - At least once: a message is delivered until it is deleted. Order is not promised.
//   - Unknown outcomes: an error that is neither about content nor about a condition leaves open
//     whether the call took effect. Callers repeat the call, or read back; the floors above make
//     repeats harmless by IDs and ETags.
//   - Content first: names, keys, sizes and delays are checked before anything is done. A call refused
//     with [ErrInvalid] or [ErrTooLarge] had no effect, a batch included.
//   - No aliasing: a driver keeps no slice it was given and hands out no slice it keeps.
//   - Concurrency: all methods may be called concurrently. A context that has ended before the call is an
//     error without an effect. One that ends during the call ends the wait, with an error that matches
//     context.Cause; the call may still take effect. A listing under way ends with that error too.
//   - Nobody else retries: a driver hides short contention (a busy lock, one reset connection). What it
//     returns it has given up on.
package storage
