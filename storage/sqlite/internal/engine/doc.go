// Package engine runs a SQLite database file for one process: it groups writes into transactions, keeps the log short,
// and notices when the file or the disk was lost. It knows nothing of what a file holds; a [Schema] makes the tables,
// and a [Session] with its ops writes them.
//
//	callers ──▶ ops ──▶ gatherer ──▶ writer ──▶ BEGIN, op, op, …, COMMIT ──▶ answers
//	                                    │  ▲
//	                                    │  └── all but a few pages are copied ──┐
//	                                    └── enough pages in the log ──▶ checkpointer
//	callers ──▶ readers (a few read-only connections)
package engine
