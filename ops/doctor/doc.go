// Package doctor finds out what is wrong with a store and with the programs that use the store, and says what to do
// about each fault. The act doctor shows the findings to people. Another program may ask for them at a desk of package
// act:
//
//	desk, err := act.Open(ctx, store, act.Program{})
//	findings, err := doctor.Examine(ctx, desk, doctor.Lag)
//	for _, f := range findings {
//		if f.Severity == doctor.Wrong {
//			alert(f.Check, f.Text, f.Fix)
//		}
//	}
//
// An examination looks at what programs have published about themselves and at their workers' reports, at the numbers
// of all queues and poison queues, and at what the capabilities of the framework keep in the store: pauses, counters,
// gates, locks, turns, guards, schedules, files that are held, instances of plans, settings, and reports of spools. If
// the store is a file, the examination also looks at the file's log, and at the process that writes there. Where the
// store's driver tells what is wrong with its engine ([storage.Store.Inspect]), the examination tells that, too.
//
// A finding is [Wrong] if somebody should do something about the fault. A [Note] is good to know. So a store with notes
// alone is well.
//
// # Laws
//
//   - A finding says what to do. If an act helps, the finding has the act, filled in as far as doctor knows. The fix
//     has the same act as people type it.
//   - An examination changes nothing, but for two things. The list of locks deletes what candidates that died an hour
//     ago have left behind. And processes that listen are rung, as a pause rings them, and find no news.
//   - An examination is bounded: of each capability it looks at so many things at most. If a queue has more keys, or a
//     plan more open instances, a finding says so.
//   - A document that can't be read is a finding, and hides no other document. A store that can't be reached is an
//     error of [Examine]. [Look] goes on with what can be read, and tells which findings it would have seen.
//   - A finding has a key ([Finding.Key]), which stays while its numbers and ages change. No two findings of an
//     examination have the same key.
//   - Messages that wait for long in a queue are one finding. If a pause, a level or the open guard of the queue tells
//     why, the finding is about the pause, the level or the guard.
//   - A poison queue is a finding. If its latest messages are all of kinds that nobody handles, the findings are about
//     these kinds. This holds for the first 20 poison queues by name: of each, the latest 5 messages are read. The
//     listing that counts the messages finds the latest ones, too.
//   - A step whose effect may have happened is a finding of its own. An act of a finding does such a step again only
//     for a person who says of this step that its effect has not happened. No act on several steps does so.
//   - No finding shows the content of a message, nor the key of a turn: both may be personal.
//
// # Files
//
//	doctor.go       Finding and Examine
//	look.go         an examination: what was found, and what could be looked at
//	mend.go         a finding's fix, with its acts
//	programs.go     what programs have published: kinds without handlers, clocks, old versions
//	unhandled.go    kinds without handlers whose messages are in poison queues
//	collections.go  names that stand for different things
//	queues.go       consumers, lag and poison; lanes.go has lanes that nobody looks into
//	held.go         queues that a pause or a level holds
//	store.go        the store's engine, a store in a file, and processes that don't hear
//	coord.go        counters, gates and locks
//	guards.go       guards of outside services, and limits
//	turns.go        and so on: a file for each other capability
package doctor
