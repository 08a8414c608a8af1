// Package bucket holds what one process may use of a number: calls a second, or calls at a time. A call takes its
// permit here, without a request. The bucket knows the share that is in force, and how much its process needs. It knows
// neither the document that the share comes from, nor other processes, nor a store. So each of its states can be
// reached in a test by calls and by time.
//
// The first call of an idle bucket starts its keeper; see [Config]. The keeper gets a share for the bucket, and renews
// the share until [Bucket.Retire] says that the bucket isn't used any more:
//
//	idle ─first call: Config.Join─▶ kept ─Retire─▶ retiring ─Retired─▶ idle
//	                                  ◀─Retired, and there was a call─ ┘
//
// A keeper's write has three parts here. [Bucket.Weigh] says what the process needs. [Bucket.Lower] puts a smaller
// share in force before it is written. [Bucket.Grant] puts a share in force after its write was acknowledged. A share
// ends by itself: each call compares the share's end with the clock.
//
// # Files
//
//	bucket.go   what a call does: take, give, wait, look
//	keep.go     what the keeper does: weigh, lower, grant, retire
//	share.go    which share is in force
//	attend.go   whether the bucket has a keeper, and what the keeper is asked for
//	line.go     the order of the calls that wait, and those that watch
//	permits.go  a rate's meter: permits that come evenly, and how much is needed by what was used
//	places.go   the meter of slots: calls under way
package bucket
