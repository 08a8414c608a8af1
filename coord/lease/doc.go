// Package lease gives work to one process at a time (a nightly report, a leader) on any *storage.Store, by guarded
// writes of one blob. The clocks of processes need not agree.
//
//	l, err := lease.Acquire(ctx, store, "nightly-report", lease.Config{}) // waits until it is ours, or ctx ends
//	if err != nil {
//		return err
//	}
//	defer l.Release(ctx)
//	return report(l.Context(), l.Fence())
//
// The blob is in the container "leases", under the lease's name. It holds:
//
//   - the holder
//   - a random ID of this acquisition; an empty ID means that the lease was released
//   - the fence
//   - the holder's TTL
//   - a beat that each renewal counts up
//
// The blob is never deleted, so that the fence goes on growing. After a deletion by hand the fence begins at 1 again.
//
//	(nothing) ──IfAbsent, fence 1──▶ held ◀──IfMatch, fence+1── released
//	                                 │  ▲ └──IfMatch, empty ID──────▲
//	                                 └──┘
//	             renewal: IfMatch, beat+1, every TTL/3
//	             takeover: IfMatch, fence+1, by a process that has seen it stay the same for 7/6 of the TTL
//
// # Why two contexts are never alive at once
//
// A holder's context ends 5/6 of its TTL after the start of its last write that was answered with success. Each
// such write moves the end. A write whose outcome is unknown moves nothing, even if it turns out later that it was
// done. Another write may follow in three ways:
//
//   - After a release. The holder's context ends before the release is written.
//   - After a takeover. The holder started its last successful write before the store did it, and others saw the
//     result after that: start ≤ write ≤ seen. They take over 7/6 of the holder's TTL (which the blob tells) after
//     they saw it, and only if nothing was written meanwhile, which the ETag proves. The context ended at
//     start + 5/6 TTL, a third of the TTL before seen + 7/6 TTL. Each span is measured on one machine's monotonic
//     clock. So the time that the clocks show doesn't matter. It matters only that neither runs 7/5 as fast as the
//     other.
//   - After a write by the same Acquire that was done without an answer. Acquire hasn't returned a lease yet, and
//     writes again.
//
// Of concurrent writers one succeeds, because all name the same ETag. Each write of a new holder has a larger fence
// than the one it replaces.
//
// # What it does not promise
//
// A context can only be checked before an action. A process may stand still between the check and the action: a
// paused machine, a long garbage collection, a request on a slow network. Then it acts after the end of its
// context. So may a process on a machine that was asleep, because the monotonic clock may have slept too. Where
// that would do harm, use the fence as a fencing token: store it with each guarded write, and refuse a write with a
// smaller fence than the largest seen.
package lease
