// Package driver holds the interfaces that a storage driver implements. Users hold the types of package storage,
// which stand on these interfaces. A program's own code needs this package only to write a driver, or a decorator
// around one.
//
//	func Open(ctx context.Context, rest string) (*storage.Store, error) { // for tests, and programs without a URL
//		s, err := open(ctx, rest) // a driver.Store
//		if err != nil {
//			return nil, err
//		}
//		return storage.New(s), nil
//	}
//
//	// Driver is what programs list in host.Program.Drivers.
//	var Driver = storage.Driver{
//		Scheme: "mine",
//		Usage:  "mine:HOST keeps everything on HOST.",
//		Open: func(ctx context.Context, rest string, _ storage.OpenConfig) (*storage.Store, error) {
//			return Open(ctx, rest)
//		},
//	}
//
// A driver passes the suite of storage/storagetest. It has three kinds of place to write: queues, blobs, tables. Seven
// abilities are optional: [Committer], [Listener], [Finder], [Lister], [Peeker], [Inspector] and [PublicFiles]. A
// driver that lacks one returns nil, and package storage does without.
//
// # What the driver need not do
//
// Package storage checks before each call: names, keys, sizes, delays, visibilities and conditions are good, batches
// are not empty, no key occurs twice, and the context has not ended. It gives errors their operation and resource. It
// hands a call on to the driver once: an error of the driver means that the driver has given up on the call.
//
// # Laws of every driver
//
//   - Durable: what a nil error acknowledged survives the death of the process, and of the machine where the driver
//     says so.
//   - At least once: a message is delivered until it is deleted. Order is not promised.
//   - Unknown outcomes: an error that is neither about content nor about a condition leaves open whether the call
//     took effect. Callers repeat the call, or read back; IDs and ETags make repeats harmless.
//   - No aliasing: a driver keeps no slice it was given and hands out no slice it keeps.
//   - Concurrency: all methods may be called concurrently. A context that ends during the call ends the wait, with an
//     error that matches context.Cause; the call may still take effect. A listing under way ends with that error too.
//   - Short contention is hidden: a busy lock, one reset connection. Nobody above repeats a call because of it.
//   - After Close all calls fail with [ErrUnavailable].
//   - Elapsed time on one machine decides when a visibility ends, never a comparison of two machines' clocks.
//
// # Decorators
//
// A decorator embeds the [Store] that it wraps and overrides the methods that it changes. Abilities are methods of
// Store, so that those of the inner store come along by themselves. A decorator that must see all sends overrides
// Committer too.
package driver
