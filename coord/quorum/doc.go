// Package quorum is a lock over several independent stores, of which a minority may fail: three files on three disks,
// or five storage accounts. It is the Redlock algorithm on guarded writes of blobs, with fences.
//
//	l, err := quorum.Acquire(ctx, []*storage.Store{a, b, c}, "nightly-report", quorum.Config{}) // waits until it is ours
//	if err != nil {
//		return err
//	}
//	defer l.Release(ctx)
//	return report(l.Context(), l.Fence())
//
// It is good for availability: the lock works while a store is dead, hangs or comes back empty. If one store is as
// available as the work needs, take coord/lease: it costs a third of the requests and assumes less.
// Neither lock makes work correct by itself, because a process may stand still after its last look at the context.
// Where two holders would do harm, store the fence with each write, and refuse a write with a smaller fence than the
// largest seen.
//
//   - "Redlock, Redis documentation, Distributed locks with Redis": the algorithm, by Salvatore Sanfilippo.
//   - Martin Kleppmann, "How to do distributed locking", 2016: it trusts clocks and pauses, and has no fence.
//   - Salvatore Sanfilippo, "Is Redlock safe?", 2016: the time that a round took is subtracted, so a pause before the
//     lock is had does no harm, and a pause after it harms every lock.
//
// Here elapsed time alone counts, each span on one machine's monotonic clock, and each holder has a fence.
//
// # How it works
//
// Each store has a document in the container "quorum", under the lock's name: the store's grant. It holds the holder,
// an ID, the fence, the TTL and a beat. An empty ID means that the grant is free. A candidate goes in rounds:
//
//   - It reads all documents, in parallel, each within an eighth of the TTL.
//   - A grant may be taken if it is free, or if the candidate has seen its document stay the same for 7/6 of the TTL in
//     it, over as many rounds as that takes.
//   - When a majority may be taken, the fence is the largest that was read, plus one. The others get as long again to
//     answer. Then all that may be taken are written, if their ETags are still those that were read.
//   - If a majority is written, the candidate holds the lock until 5/6 of the TTL after the writes began, by the
//     latest majority of them. Otherwise it gives everything back, also where the outcome is unknown, and waits: a
//     short random time if other candidates took the rest, else until a majority may be taken.
//
// The holder writes each grant again every third of the TTL, and takes those that it hasn't got. Its context ends when
// there is no majority of grants whose last write with a known success began in the last 5/6 of the TTL. A release
// frees all grants. No document is ever deleted, so that fences go on growing.
//
// # A store that forgot
//
// A store that restarts without its data has no document, though it may have granted the lock a moment ago. A store
// that was away when the name was first used looks the same. If no store at all has a document, the name is new and
// free at once. Otherwise the document that is missing is made, with an ID that names nobody. A candidate leaves it
// alone for 7/6 of the TTL as it does any other. A holder takes it at once, so that a store learns what it forgot.
//
// The fence is decided only if a majority of the documents that were read have one, or if a majority of the stores has
// no document. So a store that forgot counts as dead for the fence until it has learnt. A lock over three stores, of
// which one forgot and another is dead, isn't had until that one is back.
//
// An SQLite file that was lost and made anew is such a store only for programs that open it after that. One that had
// it open before, or has nil for it, goes on with the others, and for that program this store is dead. No program
// opens a store again by itself: a disk that is away for a moment must not come back as an empty file in its folder.
// So restart each program, one after another; the order doesn't matter. A program may also open the store itself and
// give it to its next Acquire. The store counts as one that forgot until a program that has opened it holds the lock.
//
// A document whose fence is ahead of the fences in most stores by more than 2³² is no holder's. It counts as a dead
// store until somebody deletes it, so that one store can't use up the fences of all.
//
// # Why two contexts are never alive at once
//
// Two majorities share a store. Let X and Y be holders, both alive, and both with a proof by that store. Say that Y
// wrote there after X. X's document was replaced in one of three ways:
//
//   - X gave it back: after the end of its context, or in a round that had failed.
//   - A candidate watched it for 7/6 of the TTL. Then X's proof by this store ended a third of the TTL before, as the
//     comment of Hold in package internal/agree proves.
//   - The store forgot it. A candidate then watches the new document for 7/6 of the TTL, which began even later. A
//     holder H takes it while it is alive, after it has read the new document. If X was a holder at that moment, X and
//     H were two already. If X was in its round still, then X had read all that it took before the loss. H's majority
//     shares a store with X's. X found H's document there and left it alone, or read the store before H's write, and
//     then its own write failed or H's did. So X never held the lock after H.
//
// # Why fences grow
//
// A round writes a larger fence than any that it read, over a document that is still as it was read, and no write makes
// a document's fence smaller. So at a store that two holders wrote, the later one has the larger fence, and two
// majorities share a store. If that store forgot in between, the fence comes from a majority that did not forget, which
// shares a store with the earlier holder's majority, and it was read after the earlier holder's round was over. A
// candidate that fails may burn a number: fences have gaps.
//
// # What it assumes
//
//   - Less than half of the stores forget a name's document, or never got it, before a holder has given it to them
//     again. A majority of stores without a document counts as a name that is new.
//   - A store forgets a document or keeps it. If a store may come back in an older state (a replica, a backup), delete
//     its container before. Otherwise the lock is safe only while the holder has more grants than a majority.
//   - A store doesn't forget while a name is first used. No request from before the loss arrives after it. No ETag is
//     used twice.
//   - All processes give the same stores and use the same TTL for a name.
//
// # Cost
//
// With N stores:
//
//   - an acquisition: N reads and N writes
//   - holding: N writes every third of the TTL
//   - a release: N writes
//   - waiting: N reads every quarter of the TTL, mostly of a document that hasn't changed
//   - a round that failed: a write, and sometimes a read, for each grant that it asked for
package quorum
