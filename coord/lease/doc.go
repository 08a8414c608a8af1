// Package lease gives work to one process at a time (a nightly report, a leader) on any *storage.Store, by guarded
// writes of one blob. It needs no clock that others agree with.
//
//	l, err := lease.Acquire(ctx, store, "nightly-report", lease.Config{}) // waits until it is ours, or ctx ends
//	if err != nil {
//		return err
//	}
//	defer l.Release(ctx)
//	return report(l.Context(), l.Fence())
//
// The blob is in the container "leases", under the lease's name: who holds it, a random ID of this acquisition, the
// fence, the holder's TTL, and a beat that each renewal counts up. An empty ID means that it was released. The blob is
// never deleted, so that the fence goes on growing; who deletes it by hand begins it anew.
//
//	(nothing) ──IfAbsent, fence 1──▶ held ◀──IfMatch, fence+1── released
//	                                 │  ▲ └──IfMatch, empty ID──────▲
//	                                 └──┘
//	             renewal: IfMatch, beat+1, every TTL/3
//	             takeover: IfMatch, fence+1, by who has watched it stay the same for 7/6 of the TTL
//
// # Why two contexts are never alive at once
//
// A holder's context ends 5/6 of its TTL after the start of its last write that was answered with success; every
// such write moves the end. A write whose outcome is unknown moves nothing, even when it turns out later that it was
// done. Another may follow in three ways:
//
//   - After a release. The context is ended before the release is written.
//   - After a takeover. The holder started its last successful write before the store did it, and others saw the
//     result after that: start ≤ write ≤ seen. They take over 7/6 of the holder's TTL (which the blob tells) after they
//     saw it, and only if nothing was written meanwhile, which the ETag proves. The context ended at
//     start + 5/6 TTL, a third of the TTL before seen + 7/6 TTL. Each span is measured on one machine's monotonic clock, so
//     what the clocks show doesn't matter, only that neither runs 7/5 as fast as the other.
//   - After itself, when a first write in Acquire was done without an answer. It has handed out nothing yet, and
//     writes again.
//
// Of writers that follow at the same time one succeeds, because all name the same ETag; and each writes a larger fence
// than the one it replaces.
//
// # What it does not promise
//
// A context can only be looked at. A process that stands still between the look and the deed (a paused machine, a long
// collection of garbage, a request on a slow network) acts after its end, and so does one on a machine that was asleep,
// whose monotonic clock may have slept too. Where that would do harm, write the fence with what you write, guarded,
// and refuse what comes with a smaller one than the largest seen.
package lease
