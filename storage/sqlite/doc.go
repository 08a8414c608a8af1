// Package sqlite keeps queues, blobs and tables in one SQLite file. It is the driver for one machine. Give [Open] to
// storage.Drivers under "sqlite". The URL is
//
//	sqlite:PATH[?PARAMETER=VALUE&…]
//
//	sync=full|normal   full (the default): acknowledged calls survive a power failure.
//	                   normal: they survive the death of the process; a power failure may take the last moments.
//	wake=on|off        on (the default): the store watches the other processes that have the file open.
//	                   off: it watches neither what they send nor whether they live, and goes by the wall clock.
//	                   off is for virtual time in tests.
//
// [Open] itself takes the URL with or without "sqlite:". PATH is absolute or relative to the working directory, and
// leads to a local disk. Beside the file lie:
//
//   - PATH-wal (the log) and PATH-shm (the shared memory). They belong to the database while it is open.
//   - the folder PATH-wake, by which processes ring each other.
//
// A file that root makes there is given to the database's owner. A store that can't use PATH-wake logs that once, to
// slog.Default, and works without it.
//
// # How it works
//
//	callers ──▶ ops ──▶ writer ──▶ BEGIN, op, op, …, COMMIT ──▶ answers, rings
//	                     ▲  │                        └─ deletions and claims alone ─▶ syncer ─▶ answers
//	                     │  └─ enough pages in the log ─▶ checkpointer
//	                     └──── all but a few are copied ──┘
//	callers ──▶ readers (a few read-only connections)
//
// One goroutine, the writer, owns the only connection that writes. It takes all ops that wait, runs them in one
// transaction, and answers after the commit. So one sync of the disk serves all callers that came meanwhile. No op
// can fail half-way: each has at most one condition, and its first statement that writes checks it. So a lost race
// costs its caller alone, and needs no savepoint.
//
// A transaction has one time. Receives run first in it, because the queue places of the messages that it sends are
// written last, just before COMMIT. A consumer that awaits a message gets it after the commit has succeeded and the
// callers have their answers.
//
// A commit doesn't wait for the disk when it holds nothing but claims, extensions, releases of dead processes'
// claims, and deletions. Nor does giving back free pages.
//
//   - A power failure may undo a claim. Then its message is delivered sooner, and that delivery isn't counted.
//   - A deletion is answered once another goroutine, the syncer, has synced the log. If a power failure comes before
//     that, the message is back, but its caller was never told that it is gone.
//   - After a sync that fails, here or in SQLite, all calls fail. The disk may have dropped what it was given, and
//     may report success the next time.
//
// A message is two rows. One holds what stays. The other, a small one, holds what changes, and lies in the order in
// which its queue gives messages out. A claim moves the small row only.
//
// Some messages are written as claimed, which saves that move. They are for a consumer of this store that awaits
// them, or for a receive in the same transaction that has found fewer messages than it asked for.
//
// SQLite goes on with a file that was removed or replaced, or whose log or shared memory was. Its writes are lost
// then. So the store looks whether the paths still lead to all three:
//
//   - after each commit, and after each sync of deletions, before a caller is answered. This look takes three
//     microseconds.
//   - before a commit and before a read. Here a look of the last second is enough.
//
// Where a path leads elsewhere, all calls fail from then on. A log without its file keeps a store from being opened,
// because SQLite would delete it.
//
// The log lies in the folder of the file's name, after all links have been followed. Two kinds of files are refused,
// because the log would be missing for programs that reach the file by another way:
//
//   - a file that is mounted by itself (seen on Linux from 5.8 on)
//   - a file that has two names (hard links).
//
// Several processes may have one file open. SQLite's lock lets them write in turn. A process that has sent something
// touches a file of its own in PATH-wake, and the others watch that folder, so no process polls quickly. A store
// rings its consumers every five seconds in two cases:
//
//   - It doesn't see its own touch.
//   - Other processes are there. They may have claims whose ends it can't know.
//
// A store that sees no other process watches the log while it rests. So it finds what is sent by processes that can't
// use the folder.
//
// Stats counts up to 100,000 ready messages and as many hidden ones; Oldest is of those counted.
//
// # Clocks
//
// The file's time decides what is due, to the microsecond. It counts what CLOCK_MONOTONIC counts, which timers follow
// as well. All stores of one boot have the same time. So a claim becomes receivable when its visibility has passed on
// this machine, or its process is dead, whatever becomes of the wall clock. The clock stands still while the machine
// sleeps, and so do the timers of a handler that renews its claim.
//
// With each boot the file's time begins at the wall clock, but never before the time that was last written down. A
// store writes it down once a minute of work. The file holds for each boot how far its time is ahead of the monotonic
// clock. On systems other than Linux, and with wake=off, the file's time is the wall clock of the process that acts.
// The times at which something was sent or modified are always by the wall clock.
//
// # The claims of dead processes
//
// A process that was killed hands nothing back. The other processes need not wait for its visibilities to end,
// because they can know that it is dead. A store that claims, sends or waits for rings keeps a file in PATH-wake
// locked (flock). The file is life-NUMBER, and the generation of each of the store's claims holds the number. The
// lock goes when the process is gone, whatever ended it, and not before: a process that is stopped or hangs keeps it.
//
// A store that receives tries the locks of the others, once a second at most. A store that waits for rings does so
// every five seconds while there are others. When it gets a lock it makes receivable, in one op, what that number has
// claimed, rings the consumers, and removes the file. That costs receivers some microseconds a second, and a claim
// nothing.
//
// No claim of a living process is released:
//
//   - A store makes and locks its file before its first claim at the latest. Then it checks that the file is there
//     and is locked by its name, because another store may have looked in between. The check also shows where locks
//     do nothing. A store removes a file only under the file's lock, and trusts no lock on a file that has lost its
//     name.
//   - Locks belong to open files, not to processes: stores in one process don't share them.
//   - A claim belongs to the store that received or last extended it. A generation without a number belongs to no
//     process. Such are the claims of stores with wake=off, and of stores that can lock no file, on Windows for one.
//   - A release ends visibilities, and with them the receipts of the dead process. It changes nothing else.
//
// A store that is closed removes its file before the lock goes: its claims stay, because its receipts still work.
// Without a file no process is known to be dead, and visibilities end as usual. They also do for a message that was
// delivered more than three times: it may be what kills, and dead processes are quickly restarted.
package sqlite
