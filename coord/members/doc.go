// Package members lets processes on one store agree on who of them does what only some shall do at a time: consume a
// queue, say. Nobody leads, and no clocks need agree.
//
//	m, err := members.Join(store, "nightly", members.Config{Active: 1})
//	if err != nil {
//		return err
//	}
//	defer m.Leave(ctx)
//	for ctx.Err() == nil {
//		active, changed := m.Active()
//		// begin, or stop
//		select {
//		case <-changed:
//		case <-ctx.Done():
//		}
//	}
//
// # States
//
// A member is a row of the table "members", in its group's partition. The row's key begins with the member's rank, a hash of the
// group and a random ID; its data has a number that each beat counts up.
//
//	(no row) ──beat──▶ alive ──its row stays the same for 3 beats──▶ dead ──who sees that deletes the row──▶ (no row)
//	                   │  ▲                                           │
//	                   │  └───────────────────beat────────────────────┘
//	                   ├──Leave──▶ (no row)
//	                   └──unfit when a beat is due: row withdrawn──▶ (no row)
//
// Who was unfit (Config.Fit), or taken for dead in error, comes back with its next beat.
//
// A member is active while fewer of those alive rank higher than it asks for (rendezvous hashing, Thaler and Ravishankar
// 1998). So groups of the same processes are spread over them by chance, and who comes or goes changes nothing but its own part.
//
// # Laws
//
//   - Who ranks highest of those alive is active, as soon as it has looked. Nobody beats who isn't fit, or hasn't been able
//     to look for three beats: others would wait for it in vain.
//   - When an active member leaves, the next one takes over within a beat; when it isn't fit any more, within two, since
//     it withdraws its row when its next beat is due. When it dies, the next one takes over within four and a second: up
//     to one to see the last beat, three of silence, and up to a second until it looks again. When the next ones have
//     died too, each of them adds two or so.
//   - When an active member can write but not read, the next one takes over within eight and a second: the active one
//     notices within one, goes on beating for three, and then it is as if it had died.
//   - A member that joins and ranks high enough is active at once; who has to make room for it hears of that within a
//     beat. Those that died lately it takes for alive at first, until it has seen three beats of silence.
//   - A store in trouble changes nothing: each goes by what it saw last.
//   - More than as many as were asked for are active now and then: while news travel; when one isn't fit, can't reach the
//     store, or stands still. So it is for thrift, not for safety. Use coord/lease where two would do harm.
//
// # Cost
//
// A row is written each beat. The active members and the next one read about as often, after a change each second for a while; others
// the more seldom the lower they rank. A read brings the rows that rank higher, at most a hundred and as many as are
// active.
package members
