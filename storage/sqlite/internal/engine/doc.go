// Package engine runs a SQLite file for one process: it groups writes into transactions, keeps the log short, and
// notices when the file or the disk was lost. It knows nothing of what a file holds. A [Schema] makes the tables, and a
// [Session] and its ops write them.
//
//	callers ──▶ ops ──▶ gatherer ──▶ writer ──▶ BEGIN, op, op, …, COMMIT ──▶ answers
//	                                  ▲  │                      └─ late ops ──▶ syncer ──▶ answers
//	                                  │  └─ enough pages in the log ──▶ checkpointer
//	                                  └──── all but a few are copied ──┘
//	callers ──▶ readers (a few read-only connections)
//
// One goroutine, the writer, owns the only connection that writes. All that wait share a transaction, and with it a
// sync of the disk. When such a group can't be committed, each op gets a transaction of its own.
//
// # What waits for the disk
//
// A commit waits for the disk if one of its ops was promised to be durable. Relaxed ops never wait. Late ops are
// answered when the syncer has synced the log, beside the writer. Nobody waits for free pages that are given back.
//
// After a sync that fails, here or in SQLite, all calls fail. The disk may have dropped what it was given, and may
// report success the next time.
//
// # A file that is lost
//
// SQLite goes on with a file that was removed or replaced, or whose log or shared memory was. Its writes are lost
// then. So the engine looks whether the paths still lead to all three:
//
//   - after each commit, and after each sync for late ops, before a caller is answered. This look takes three
//     microseconds.
//   - before a commit and before a read. Here a look of the last second is enough.
//
// Where a path leads elsewhere, all calls fail from then on. The log lies in the folder of the file's name, after all
// links have been followed. A file that can be reached without its log is refused.
package engine
