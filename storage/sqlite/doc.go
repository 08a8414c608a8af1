// Package sqlite keeps queues, blobs and tables in one SQLite file: the driver for one machine. Give [Open]
// to storage.Drivers under "sqlite"; the URL is
//
//	sqlite:PATH[?PARAMETER=VALUE&…]
//
//	sync=full|normal   full (the default): what was acknowledged survives a power failure. normal: it
//	                   survives the death of the process, a power failure may take the last moments.
//	wake=on|off        off: don't watch for what other processes send. For virtual time in tests.
//
// PATH is relative to the working directory or absolute, and on a local disk. Beside it live PATH-wal and
// PATH-shm, which belong to the database while it is open, and the folder PATH-wake.
//
// # How it works
//
//	callers ──▶ ops ──▶ writer ──▶ BEGIN, op, op, op, …, COMMIT ──▶ answers, rings
//	                       ▲  │
//	                       │  └─ enough pages in the log ─▶ checkpointer
//	                       └──── all but a few are copied ──┘
//	callers ──▶ readers (a few read-only connections)
//
// One goroutine owns the only connection that writes. It takes all that waits, runs it in one transaction,
// and answers after the commit, so one sync of the disk serves everybody who came meanwhile. No op can fail
// half-way: each has at most one condition, and checks it in its first statement that writes. So a lost
// race costs its caller alone, and needs no savepoint.
//
// SQLite goes on with a file that was removed or that another has replaced, and what it writes then is lost. So before a
// commit, a second apart at least, the writer looks whether the path still leads to the file; readers do likewise. Where it
// doesn't, all calls fail from then on.
//
// Several processes may have one file open; SQLite's lock lets them write in turn. A process that has sent
// something touches a file of its own in PATH-wake, and the others watch that folder; nobody polls quickly.
//
// Times are those of the process that acts, to the microsecond.
package sqlite
