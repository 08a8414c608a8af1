// Package simulation holds the promise against everything that may happen, in virtual time.
//
// A run is a world: one store, some worker processes, a web process that sends commands, an operator, and a schedule
// that follows from a seed. Store calls fail before or after their effect, are late, throttled, repeated; receipts become
// stale; processes are cut off from the store, crash and come back, or are stopped and started; some run an older
// version of the program; some commands are sent twice, some fail for a while, some for ever, some kill whoever handles them.
// Channels, workers, handlers, values and views are the real ones, and so is the store.
//
// Then all faults end, the workers empty the queues, and an auditor compares what the store holds with what was sent and
// acknowledged, knowing nothing else. Each of its checks has a name, which is also how a run fails.
//
//	make simulate SEEDS=10000        random schedules, by the thousand
//	make simulate SEED=123           one of them again, with its history
//
// The package consists of tests; package mutants below shows that they can fail.
package simulation
