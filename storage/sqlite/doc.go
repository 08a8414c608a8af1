// Package sqlite keeps queues, blobs and tables in one SQLite file. It is the driver for one machine. Programs of
// package host have it by themselves; other programs list [Driver] in their storage.Drivers. The URL is
//
//	sqlite:PATH[?PARAMETER=VALUE&…]
//
//	sync=full|normal   full (the default): acknowledged calls survive a power failure.
//	                   normal: they survive the death of the process; a power failure may take the last moments.
//	wake=on|off        on (the default): the store watches the other processes that have the file open.
//	                   off: it watches neither what they send nor whether they live, and publishes to its own
//	                   receivers alone.
//	                   It is for virtual time in tests.
//
// [Open] itself takes the URL with or without "sqlite:". PATH is absolute or relative to the working directory, and
// leads to a local disk. Beside the file lie:
//
//   - PATH-wal (the log) and PATH-shm (the shared memory). They belong to the database while it is open.
//   - the folder PATH-wake, by which processes ring and tell each other.
//   - the folder PATH-files, which holds large files. The first part of a file makes it. Backups must have it, too.
//
// A file that root makes there is given to the database's owner. A store that can't use PATH-wake logs that once and
// works without it.
//
// A spool is such a file with another mark (OpenSpool). Neither is opened as the other.
//
// # How it works
//
//	callers ──▶ ops ──▶ engine: BEGIN, op, op, …, COMMIT ──▶ answers, rings
//	                      │                      └─ deletions and claims alone ─▶ sync ─▶ answers
//	callers ──▶ reads ────┘
//
// Package internal/engine runs all ops that wait in one transaction, and answers after the commit. So one sync of the
// disk serves all callers that came meanwhile. This package says what ops write. No op can fail half-way: each has at
// most one condition, and its first statement that writes checks it. So a lost race costs its caller alone, and needs
// no savepoint.
//
// A transaction has one time. Receives run first in it, because the queue places of the messages that it sends are
// written last, just before COMMIT. A consumer that awaits a message gets it after the commit has succeeded and the
// callers have their answers.
//
// A commit doesn't wait for the disk when it holds nothing but claims, extensions, releases of dead processes'
// claims, and deletions.
//
//   - A power failure may undo a claim. Then its message is delivered sooner, and that delivery isn't counted.
//   - A deletion is answered once another goroutine has synced the log. If a power failure comes before that, the
//     message is back, but its caller was never told that it is gone.
//
// A message is two rows. One holds what stays. The other, a small one, holds what changes, and lies in the order in
// which its queue gives messages out. A claim moves the small row only. The large row of a message with a key is in an
// index of its own, and knows where the small one is until the message is received.
//
// Some messages are written as claimed, which saves that move. They are for a consumer of this store that awaits
// them, or for a receive in the same transaction that has found fewer messages than it asked for.
//
// All calls fail for good once a sync has failed, once a statement has found the file or the log damaged, once the log
// has lost its beginning, or once the path leads to another file, log or shared memory than at first. After the first
// three, Close fails too, so that a program doesn't end as if all were well.
//
// A log without its file keeps a store from being opened, because SQLite would delete it. Two kinds of files are
// refused, because their log would be missing for programs that reach the file by another way:
//
//   - a file that is mounted by itself (seen on Linux from 5.8 on)
//   - a file that has two names (hard links).
//
// Several processes may have one file open: SQLite's lock lets them write in turn, and by files in PATH-wake they
// signal to each other what they send (package internal/peers). A store with receivers has a socket there; Publish asks
// each.
//
// A process that stands still within a transaction keeps all others from writing. Their calls fail after 10 seconds,
// and each store warns once. On Linux both name the process, and so does Standstill.
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
// clock. On systems other than Linux the file's time is the wall clock of the process that acts. The times at which
// something was sent or modified are always by the wall clock.
//
// A store with wake=off goes by the file's time if that has begun in this boot, and otherwise by the wall clock. It
// begins none: in a bubble of testing/synctest the wall clock is virtual, but CLOCK_MONOTONIC is not, so two stores of
// one bubble would have different times.
//
// # The claims of dead processes
//
// A process that was killed hands nothing back, but the other processes know by the lock of its file in PATH-wake that
// it is dead, and make its claims receivable at once (package internal/peers). A message that was delivered more than
// three times waits for the end of its visibility: it may be what kills, and dead processes are quickly restarted.
package sqlite
