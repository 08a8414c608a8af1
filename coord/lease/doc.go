// Package lease gives work to one process at a time (a nightly report, a leader) on any *storage.Store, by guarded
// writes of one blob. The package renews a lease for its holder, every third of its TTL, until the holder releases
// it. If the holder crashes, a waiting process gets the lease 7/6 to 3/2 of the TTL after the last renewal: 35 to 45
// seconds by default. The clocks of processes need not agree.
//
//	err := lease.Do(ctx, store, "nightly-report", lease.Config{}, func(ctx context.Context, l *lease.Lease) error {
//		return report(ctx, l.Blobs(reports))
//	})
//
// [Do] waits for the lease and releases it in every way out. [Acquire] and [Try] return a [Lease] to hold longer than
// one function. [Update] changes one document exclusively. [Lease.HandOver] gives the lease to one waiting process. An
// operator looks by [List] and takes a lease away by [Break].
//
// The blob is in the container "leases", under the lease's name. It holds:
//
//   - the holder, and since when by its clock, for people
//   - a random ID of this acquisition; an empty ID means that the lease was released
//   - the fence
//   - the holder's TTL
//   - a beat that each renewal counts up
//   - after a hand-over, the next holder
//   - the last break: who, why, and the fence of the holder whose lease was broken
//
// The blob is never deleted, so that the fence goes on growing. After a deletion by hand the fence begins at 1 again.
// A blob with other fields is refused, because a field of a newer version may say that the lease is held.
//
//	(nothing) ──IfAbsent, fence 1──▶ held ◀──IfMatch, fence+1── released
//	                                 │  ▲ └──IfMatch, empty ID──────▲
//	                                 └──┘
//	             renewal: IfMatch, beat+1, every TTL/3
//	             takeover: IfMatch, fence+1, by a process that has seen it stay the same for 7/6 of the TTL
//	             break: IfMatch, adds the note; the holder may still release it, and others may take it over
//	             hand-over: as a release, but only the next holder takes it at once; others as in a takeover
//
// # Why two contexts are never alive at once
//
// A holder's context ends 5/6 of its TTL after the start of its last write that was answered with success. Each
// such write moves the end. A write whose outcome is unknown moves nothing, even if it turns out later that it was
// done. A new holder's write may follow in four ways:
//
//   - After a release or a hand-over. The holder's context ends before either is written.
//   - After a takeover. Others take over 7/6 of the holder's TTL (which the blob tells) after they saw the blob, and
//     only if nothing was written meanwhile, which the ETag proves. They saw the blob after the start of the holder's
//     last successful write. So the context ended at least a third of the TTL before, whatever time the clocks show;
//     the comment of Hold in package internal/agree has the proof.
//   - After a break. A break leaves the ID and the TTL as they are, so it frees nothing. It replaces the ETag, so the
//     holder can't renew: its next write fails, and the context ends. Others see the break after it was written, so
//     after the start of the holder's last successful write, and then wait as for a takeover. The holder's Release
//     frees the lease earlier, after the end of its context. [Free] waits as for a takeover, and writes what a release
//     writes.
//   - After a write by the same Acquire that was done without an answer. Acquire hasn't returned a lease yet, and
//     writes again.
//
// Of concurrent writers one succeeds, because all name the same ETag.
//
// # Why each holder's fence is the last one plus 1
//
// A candidate replaces a state with fence n by fence n+1. Only one candidate succeeds, because all name that state's
// ETag. If its answer is lost, it finds its own ID in the blob, and keeps n+1 when it writes again. So all writes of
// n+1 carry one ID, and nobody has worked under n+1 before its acquisition returns. A number may be
// skipped: a process wrote its acquisition, got no answer, and was taken over. That process has done no work.
//
// Some stores lose acknowledged writes in a failover. There n+1 may be the number of a holder whose acquisition is
// lost, and that doesn't know it yet. So on a store that has a clock (storage.Props) the fence is the larger one of n+1
// and the store's time in microseconds.
//
// # Fenced documents
//
// Each look at a lease's context compares the monotonic clock with the end of the proof, so a process that was stopped
// (SIGSTOP) or got no processor sees the end at its first look. But a context can only be checked before an action. A
// process may stand still between the check and the action: a long garbage collection, a request on a slow network.
// Then it acts after the end of its context. So may a process on a machine that was asleep or a virtual machine that
// was paused, because the monotonic clock may have slept too. No clock that a program can read closes this gap: the
// fence does it. [Lease.Blobs] and [Fenced] write documents with the lease's name and fence in the first line:
//
//	{"lease":"nightly-report","fence":7,"id":"a random ID of this write"}
//	content
//
// A write with a smaller fence than the document's is [ErrFenced], even if its holder slept for a year. The check and
// the write are one, because the write names the ETag of the state that was checked. A deletion leaves the first
// line, with "deleted", so that the fence stays. An old holder may still write a document before the next one has
// written that document. Where the next holder's change depends on what it read, it names the ETag of its read, as
// [Update] does. Where its change depends on other documents too, it claims them before it reads ([Documents.Claim]).
// For anything else than documents, store the fence with each write, and refuse a smaller one than the largest seen.
//
// # Waiting
//
// A waiting process looks every sixth to third of its TTL, at random. Without news of releases, the process looks
// sooner at first. Then the pause is about a quarter of the time for which the process has known the present holder.
// The pause is at least a three-hundredth of the TTL, or a seventy-fifth if the process has waited for long. So a short
// scope is followed soon, and a long scope costs few looks. Where the store can tell (storage.Store.Publish), a release
// wakes exactly one of those that wait, at once; a hand-over wakes the next holder. A process that gives up when it is
// woken wakes another one. There is no order among those that wait.
//
// # Cost
//
//   - An acquisition: 2 requests. A release: 1; where the store tells, 1 more to find those that wait, if its
//     publishing needs requests.
//   - Holding: 3 requests per TTL.
//   - Waiting: 3 to 6 reads per TTL, answered "not modified" but for the holder's renewals. From the second poll on
//     also 1 write per TTL of a row in the table "lease-waiters", and at the end a deletion, so that [List] shows the
//     waiting process. Where the store tells, 1 read and the hearing at the beginning.
//   - A write or a claim of a fenced document: 2 requests; a read: 1. [Update]: 6, and what a release costs to tell.
//   - [Break]: 2. [List]: 1 per lease, and 1 per page of leases and of waiting processes.
//   - Each lease leaves a blob for ever, so [Update] leaves one per document.
//
// # Files
//
//	acquire.go   who gets a free lease, and when a lease of a dead holder is taken over
//	waiter.go    how a process waits, and who is woken
//	lease.go     a lease that is held: its context, fence and release; do.go runs a function under one
//	config.go    what a caller chooses; document.go is what is stored
//	fenced.go    documents that only the newest holder writes
//	break.go     what operators do, with raise.go and list.go; meters.go counts
package lease
