// Package sqlite keeps queues, blobs and tables in one SQLite file: the driver for one machine. Give [Open]
// to storage.Drivers under "sqlite"; the URL is
//
//	sqlite:PATH[?PARAMETER=VALUE&…]
//
//	sync=full|normal   full (the default): what was acknowledged survives a power failure. normal: it
//	                   survives the death of the process, a power failure may take the last moments.
//	wake=on|off        off: don't watch for what other processes send, nor whether they live, and go by the wall clock.
//	                   For virtual time in tests.
//
// [Open] itself takes it with or without "sqlite:".
// PATH is relative to the working directory or absolute, and on a local disk. Beside it live PATH-wal and
// PATH-shm, which belong to the database while it is open, and the folder PATH-wake. What root makes there belongs to the file's
// owner. A store that can't use PATH-wake logs that once, to slog.Default, and works without it.
//
// # How it works
//
//	callers ──▶ ops ──▶ writer ──▶ BEGIN, op, op, op, …, COMMIT ──▶ answers, rings
//	                       ▲  │                            └─ nothing but deletions and claims ─▶ syncer ─▶ answers to deletions
//	                       │  └─ enough pages in the log ─▶ checkpointer
//	                       └──── all but a few are copied ──┘
//	callers ──▶ readers (a few read-only connections)
//
// One goroutine owns the only connection that writes. It takes all that waits, runs it in one transaction,
// and answers after the commit, so one sync of the disk serves everybody who came meanwhile. No op can fail
// half-way: each has at most one condition, and checks it in its first statement that writes. So a lost
// race costs its caller alone, and needs no savepoint. A transaction has one time. Receives run first in it, since the places in queues
// of what it sends are written last, just before COMMIT. What was claimed for a waiting subscription is handed over after the commit.
//
// Only a commit of claims, extensions, releases of what the dead held, and deletions doesn't wait for the disk; nor does giving back free
// pages. A claim may be lost by a power failure: then its message is delivered sooner, and that delivery isn't counted. A deletion is answered once another goroutine has synced the log; if a power failure comes before, its message is back, and who
// deleted it was not told otherwise. After a sync that fails, here or in SQLite, all calls fail, because the disk may have dropped what it
// was given, and say no word of it the next time.
//
// A message is two rows: one of what stays, and a small one, in the order in which its queue gives messages out, of what changes. A claim
// moves the small one.
//
// A message that somebody waits for is written as claimed, which saves that move: for a consumer of
// this store that awaits it, or for a receive in the same transaction that has found less than it asked for.
//
// SQLite goes on with a file that was removed or that another has replaced, or whose log or shared memory was, and what it writes then is
// lost. So after each commit, and each sync of deletions, a look tells whether the paths still lead to all three before anybody is answered;
// it takes two microseconds. Before a commit, and before a read, what a look has found in the last second is enough. Where a path leads
// elsewhere, all calls fail from then on. A log without its file, which SQLite would delete, keeps a store from being opened.
//
// The log lies in the folder of the file's name, after all links have been followed. So a file that is mounted by itself (seen on Linux from
// 5.8 on), or that has two names (hard links), is refused: its log would be missing wherever the file is reached by another way.
//
// Several processes may have one file open; SQLite's lock lets them write in turn. A process that has sent
// something touches a file of its own in PATH-wake, and the others watch that folder; nobody polls quickly. A store rings its
// consumers every five seconds while it doesn't hear its own touch, and while others are there, who may
// have claims whose ends it can't know. A store that is alone as far as it sees watches the log while it rests, and finds there what is sent
// by who can't use the folder.
//
// # Clocks
//
// What is due is told by the file's time, to the microsecond. It counts what CLOCK_MONOTONIC counts, which timers follow as well, and
// all stores of one boot have the same. So a claim becomes receivable when its visibility has passed on this
// machine, or its process is dead, whatever becomes of the wall clock. The clock stands still while the machine sleeps, and so do the timers of a
// handler that renews its claim. The file's time begins by the wall clock with each boot, and never before the time that was
// last written down, once a minute of work; it holds for each boot how far it is ahead. Elsewhere than on Linux, and with wake=off, the
// file's time is the wall clock of the process that acts. When something was sent or modified is by the wall clock always.
//
// # The claims of the dead
//
// A process that was killed hands nothing back. Others need not wait for its visibilities to end, because they can know that
// it is dead. A store that claims, sends or waits for rings keeps a file in PATH-wake locked (flock): life-NUMBER, and the generation
// of each of its claims holds the number. The lock goes when the process is gone, whatever ended it, and not before: one that is stopped or
// hangs keeps it. Whoever receives tries the locks, once a second at most; whoever waits for rings does so every five seconds
// while there are others. When it gets one it makes receivable, in one op, what that number has claimed, rings the consumers, and
// removes the file. It costs receivers some microseconds a second, and a claim nothing.
//
// No claim of the living is released:
//
//   - The file is made anew and locked before the first claim, at the latest, and then seen to be there and to be locked by its name, because
//     whoever looks may have come in between. Where locks do nothing that shows too. Nobody removes a file but under its lock, nor
//     trusts a lock on a file that has lost its name.
//   - Locks belong to open files, not to processes: stores in one process don't share them.
//   - A claim is of the store that received or last extended it. Generations that hold no number are of nobody: claims of stores with wake=off, and of those where no file can be locked, on
//     Windows for one.
//   - Nothing but a visibility ends, and the receipts of the dead.
//
// A store that is closed takes its file away before the lock goes: its claims stay, because its receipts still work. Without
// a file nobody is known to be dead, and visibilities end as ever. So they do for a message that was delivered more than three
// times: it may be what kills, and dead processes are quickly started anew.
package sqlite
