// Package keylock lets work of one key run in one process at a time, on any *storage.Store, for very many keys. Workers
// use it for handlers.OneAtATime. Programs use package coord/lease, or handlers.OneAtATime itself.
//
//	turns, err := keylock.New(store, "sync", keylock.Config{})
//	t, err := turns.Take(ctx, "shop-7", nil) // ErrHeld: another process has it
//	work(t.Context(), t.Fence())
//	err = t.End(ctx, t.State())
//
// A turn is a row of the table "turns": the group is its partition, the key its row key. It holds who has the turn, the
// fence, a beat, and a [State] for the next holder: the message that must come first, a halt, what was skipped.
//
//	(nothing) ──IfAbsent───────────────────▶ held ──End: IfMatch, the state──▶ free ──IfMatch, fence+1──▶ held
//	                                         │  ▲
//	                       IfMatch, beat+1   └──┘  every TTL/3, if it is held for that long
//	takeover: IfMatch, fence+1, by a process that has seen the row unchanged for 7/6 of the TTL
//
// # Laws
//
//  1. A turn's context ends 5/6 of its TTL after the start of its last acknowledged write. Others take a turn over
//     after they have watched it for 7/6 of its TTL. So two contexts are never alive at once; internal/agree.Hold has
//     the proof. Elapsed time on one machine counts, and no two clocks are compared.
//  2. A context can't stop a process that stands still between a look at it and an act. [Turn.Fence] can: each holder's
//     is larger than those before it. Store it with what must be sure, and refuse a smaller one.
//  3. A write whose outcome is unknown gives nobody a turn. The process that made it takes the turn at its next try.
//     [Turn.Save] and [Turn.End] return nil once their state is written; whoever has the next turn begins with it.
//  4. One key costs other keys nothing: no row, no lock and no goroutine is shared. A process remembers 16,384 free
//     keys, and as many for which time is counted, where free ones don't push them out. Beyond them, keys wait for a
//     place: they are taken over, and others go past what they wait for, when one of those has been.
//  5. A row that isn't the JSON of a turn is replaced when a process has watched it unchanged for 70 seconds. A row of
//     a newer version is left alone, and its key waits.
//  6. Rows of keys that are quiet for 30 days are deleted, under their ETags; halts stay, and so do turns that somebody
//     holds, whatever the clocks say. Where others wait for a message, the 30 days begin when it comes again. A new
//     row's first fence is the number of milliseconds since 1970. So fences go on growing, unless a clock is a month
//     behind, or a key has more than 1,000 turns a second. On a store that may lose writes in a failover, a fence is at
//     least the store's time in microseconds.
//  7. A row has at most 16 KB, whatever messages say. Most have some hundred bytes.
//  8. Others go past what should come first only after [Wait.Count] says so. It counts the rounds of one message that
//     waits: from when this process refuses it to when the store delivers it again. A queue hands out messages roughly
//     in the order in which they became visible. So a round that begins when the first message is due doesn't end
//     before that comes, if it is in the queue, however long the queue is, was paused, or the process stood still. For
//     what "roughly" leaves, a round counts for a limited time only, so that there must be several. Where a queue has
//     lanes, this holds for each lane alone. So [Wait.Emptied] has to say so, too. In a lane the first message stands
//     behind none that was sent after it was due. So once all that is ready was sent later, it isn't there. A move to
//     the slow lane counts as sending, and a message is moved once. So this must be true of two times, one after the
//     other. Others go past it after 24 hours anyway.
//
// # Cost
//
// 2 requests for a turn: one to take it and one to end it. It takes 1 more where this process hasn't seen the key, and
// 2 more where another process had the turn since. A turn that lasts takes 3 requests per TTL. A look at a turn that is
// held takes 1. Once in 128 turns a process looks through some rows for old ones.
package keylock
