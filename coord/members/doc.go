// Package members lets processes on one store agree which of them do work that only a few processes do at a time,
// such as consuming a queue. There is no leader, and clocks need not agree.
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
// A member is a row of the table "members", in its group's partition. The row's key begins with the member's rank,
// a hash of the group and a random ID. Each beat counts up a number in its data.
//
//	(no row) ─beat─▶ alive ─row the same for 3 beats─▶ dead ─a member deletes the row─▶ (no row)
//	                 │  ▲                              │
//	                 │  └─────────────beat─────────────┘
//	                 ├──Leave──▶ (no row)
//	                 └──unfit when a beat is due: row withdrawn──▶ (no row)
//
// A member that was unfit (Config.Fit), or was taken for dead in error, comes back with its next beat.
//
// A member is active while fewer live members rank higher than it asks for (rendezvous hashing, Thaler and Ravishankar
// 1998). So groups of the same processes are spread over them by chance. A member that joins or leaves changes only its
// own groups.
//
// # Laws
//
//   - The live member that ranks highest is active, as soon as it has read the rows. A member doesn't beat while it is
//     unfit, or after it has failed to read for three beats: others would wait for it in vain.
//   - When an active member leaves, the next one takes over within a beat.
//   - When it becomes unfit, the next one takes over within two beats: the row is withdrawn when its next beat is due.
//   - When it dies, the next one takes over within four beats and a second: up to one beat to see the last beat, three
//     without another, and up to a second until the next read. If the next ones have died too, each of them adds about
//     two beats.
//   - When an active member can write but not read, the next one takes over within eight beats and a second: the active
//     one notices within a beat, goes on beating for three, and then counts as dead in the same way.
//   - A member that joins and ranks high enough is active at once. The member that must make room for it learns of that
//     within a beat. A new member takes recently dead members for alive until their rows have stayed the same for three
//     beats.
//   - A store that fails changes nothing: each member keeps the state that it read last.
//   - Sometimes more members are active than were asked for: before a change has been read, or while a member is
//     unfit, can't reach the store, or stands still. So this package saves work, but gives no safety. Use coord/lease
//     where two active members would do harm.
//
// # Cost
//
//   - Each member writes its row once a beat.
//   - The active members and the next one read about as often. After a change they read each second for a while.
//   - The other members read more seldom the lower they rank.
//   - A read returns the rows that rank higher, at most a hundred and as many as are active.
package members
