// Package leader lets one of many processes lead: run the scheduler, feed a queue, keep a view up to date. All are
// candidates, on any *storage.Store. Their clocks need not agree.
//
//	err := leader.Run(ctx, store, "reports", leader.Config{}, func(ctx context.Context, term leader.Term) error {
//		for {
//			if err := report(ctx, term.Blobs(reports)); err != nil {
//				return err // resign, and stand again after a pause
//			}
//			if err := sleep(ctx, time.Minute); err != nil {
//				return err // the term has ended
//			}
//		}
//	})
//
// Run goes on over many terms until ctx ends, or until the function returns nil because the work is done for good.
//
//	           ┌───── after a pause: the term was lost, or the function failed ─────┐
//	           ▼                                                                    │
//	Run ─▶ candidate ─▶ leader: the function runs ─▶ it has returned ─▶ hand-over ──┤
//	           │                                                                    │
//	           └─ ctx ends ─▶ Run returns ◀─ ctx has ended, or the work is done ────┘
//
// [Current] tells the leader of a name, [List] the leaders of all names, and [Watch] tells of changes.
//
// # How it works
//
// A leader holds the lease "leader/NAME" of package coord/lease. Its term is the lease's fence. Each leader renews its
// lease, and each candidate reads it now and then. A leader that resigns or stops releases the lease, and where the
// store rings, that wakes one candidate.
//
// # Laws
//
//   - The leader stays. It leads until it stops, resigns, dies or loses the store, however many candidates come and go.
//   - Terms grow by one with each change of the lease's holder. A term in which a process stopped or died before it
//     could call its function has no call.
//   - The contexts of two functions are never alive at once. A context ends a third of the TTL before another candidate
//     can take over.
//   - When a leader stops, its term is renewed until its function has returned, so that no other begins before. Then
//     the next one begins at once where the store rings, and elsewhere within a third of the TTL.
//   - A leader that dies, or that can't reach the store, is followed 7/6 to 3/2 of the TTL after its last renewal. By
//     default that is within 15 seconds.
//   - After its function has failed, a candidate stands back for its TTL. Others lead meanwhile. A panic and
//     runtime.Goexit are failures.
//   - A function that doesn't return within Config.DrainTimeout after the end of its context is given up ([ErrHung]).
//     Its term isn't handed over; it runs out.
//   - A watcher sees the newest state. It sees each change that its loop has time for and that lasts.
//
// # What a leader must still do
//
// A context can only be checked before an action. A process that stands still between the check and the action (a
// stopped machine, a long garbage collection) acts after the end of its term, while another leads. So write what the
// leader alone may write through [Term.Blobs]: once a later term has written or claimed a document, the writes of
// that document by older terms are refused. Claim the documents that a term begins with (lease.Documents.Claim).
// Elsewhere store Term.Number with each write, and refuse a smaller one.
//
// # Cost
//
//   - A leader makes one request every third of the TTL: 18 a minute by default.
//   - A candidate makes one every sixth to third of the TTL, some 20 more at first where nothing rings, and refreshes
//     its row of waiters once per TTL: 30 a minute by default.
//   - A change costs the old leader one request and the new one three, however many candidates there are. With a
//     doorbell each of them makes up to two more, to find those that it tells.
//   - A watcher makes 24 requests a minute, and one for each change.
package leader
