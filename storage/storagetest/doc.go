// Package storagetest tells whether a store keeps the laws of packages storage and driver, and gives tests the means
// to disturb a store.
//
// # The suite
//
// [Run] is the conformance suite. A driver adopts it in a few lines:
//
//	func TestConformance(t *testing.T) {
//		storagetest.Run(t, storagetest.Driver(sqlite.Open, func(t *testing.T) string {
//			return filepath.Join(t.TempDir(), "test.db")
//		}))
//	}
//
// A decorator does the same around a driver that passes. Most tests share one store and keep apart by
// the names of queues, containers and tables; the few that close a store or open it twice get their own.
// The suite closes every store it has opened.
//
// Sub-tests run beside each other, as many as Config.Parallel says and whatever -parallel says, because
// most of their time is waiting for a visibility to end. No queue holds more than about 200 messages.
//
// # The decorators
//
// [Intercept] passes every storage call through a hook, which may count it, hold it, fail it before its
// effect or after. [Disturb] does all that a store may do to a process, by a schedule, such as the random one of
// [Seeded]; [Crash] ends a process's work at a chosen storage call. A [Link] is cut and restored whenever the
// test likes. [Plain] hides what a store can do beyond the minimum, so that the general fallbacks run on any engine.
//
// [RunHistories] has several stores call one place at once, and checks that what they saw can be told one after the
// other.
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
//	Claim                        claim
//
// What storage checks and how it names errors is proved in package storage itself, and by names and keys on any driver.
package storagetest
