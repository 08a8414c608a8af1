// Package storagetest checks whether a store keeps the laws of packages storage and driver, and helps tests to
// disturb a store.
//
// # The suite
//
// [Run] is the conformance suite. A driver runs it in a few lines:
//
//	func TestConformance(t *testing.T) {
//		cfg := storagetest.Driver(sqlite.Open, func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") })
//		cfg.Atomic, cfg.Peeks = true, true // a driver that lacks what it claims fails
//		storagetest.Run(t, cfg)
//	}
//
// A decorator does the same around a driver that passes. Most tests share one store, and use their own queues,
// containers and tables. A test that closes a store or opens it twice gets its own store. The suite closes every
// store that it has opened.
//
// Sub-tests run concurrently, as many as Config.Parallel says and whatever -parallel says: they mostly wait for a
// visibility to end. No queue holds more than about 200 messages.
//
// # The decorators
//
//   - [Intercept] passes every storage call through a hook, which may count it, hold it, or fail it before or after its
//     effect.
//   - [Disturb] does to a process all that a store may do, by a schedule, such as the random one of [Seeded].
//   - [Crash] ends a process's work at a chosen storage call.
//   - A [Link] is cut and restored by the test.
//   - [Plain] hides a store's optional abilities, so that the general fallbacks run on any engine.
//
// [RunHistories] has several stores call one place at once, and checks that their answers fit some order of the calls.
//
// # Which test proves which law
//
// The names are those of the sub-tests of Run: group, or group/test.
//
//	driver/doc.go
//	Durable                      durable; claim/what was claimed is durable; close/with calls under way
//	At least once                timing; races; queue/a large batch arrives whole; histories of a queue
//	Unknown outcomes             cancelling/while many ...; histories, in which calls fail after their effect
//	No aliasing                  aliasing; cancelling/while many ..., which overwrite what a call was given
//	Concurrency                  races; two stores; batch/concurrent batches ...; listing/... with changes all around
//	A context that ends          cancelling; listing/... cancelled in the middle
//	Contention is hidden         races; two stores; commit/concurrent commits on one document: no other error is allowed
//	After Close                  close
//	Elapsed time decides         timing; receipts/an ended visibility alone kills nothing
//
//	Contracts of the methods
//	Props                        props
//	names, keys, sizes, delays   names and keys; ... size limit; ... bad ...: storage refuses, the driver takes the rest
//	Queue, Receipt               queue; receipts; histories of a queue
//	Condition, ETag              blobs; table; two stores/... etag; durable/etags are not used again; histories
//	List, Query                  listing; table/ranges; table/paging by the last key
//	PutBatch, DeleteBatch        batch
//	Commit                       commit, on every store; atomic, where the driver has a Committer
//	Listen, Ring                 listen
//	Subscribe, Publish           publish
//	Claim                        claim
//	Find                         find
//	Files                        files
//
// The tests of package storage, and names and keys on any driver, prove what storage checks and how it names
// errors.
package storagetest
