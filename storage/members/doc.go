// Package members tells processes on one store of one another, so that only some of them do what only some shall do at a
// time: consume a queue, say. Nobody leads, and no clocks need agree.
//
//	m, err := members.Join(ctx, store, "commands", members.Config{Name: "host-7", Active: 1})
//	if err != nil {
//		return err
//	}
//	defer m.Leave(ctx)
//	for {
//		active, changed := m.Active()
//		// begin, or stop
//		<-changed
//	}
//
// # States
//
// A member is a row of the table "members", in its group's partition, under its name: what is in its Config, and a number
// that each beat counts up. All read all rows of the group.
//
//	(no row) ──Join──▶ alive ──its row stays the same for 3 beats──▶ dead ──who sees that deletes the row──▶ (no row)
//	                   │  ▲                                           │
//	                   │  └───────────────────beat────────────────────┘
//	                   └──Leave──▶ (no row)
//
// Of those alive, the ones are active for which a hash of the group's name and theirs is highest (rendezvous hashing, Thaler
// and Ravishankar 1998). So groups with the same members are spread over them by chance, and who comes or goes changes nothing but
// its own part.
//
// # Laws
//
//   - Members that see the same rows agree, which they do two looks after the last change at the latest.
//   - A group with a member that is alive has one that is active, once news have travelled: a dead one's part goes to another
//     some 3 beats after its last, one that left is missed at the next look. A store in trouble changes nothing: each
//     goes by what it saw last.
//   - No more than as many as were asked for are active, but not always: while news travel two may do the same, and a process
//     that stood still goes on until it looks. So it is for thrift, not for safety. Use storage/lease where two would do harm.
//
// # Cost
//
// A write for each beat and a read about as often; each second at first after a change. A read brings a row of each member, and
// all members together read a thousand rows a second at most: beyond a hundred of them they look less often than they beat.
package members
