// Package doctor finds out what is wrong with a store and with the programs that use the store, and says what to do
// about that. The act doctor shows what it finds. A program of one's own may look by itself, at the desk at which it
// does acts:
//
//	desk, err := act.Open(ctx, store, act.Program{})
//	findings, err := doctor.Examine(ctx, desk, 5*time.Minute)
//	for _, f := range findings {
//		if f.Severity == doctor.Wrong {
//			alert(f.Check, f.Text, f.Fix)
//		}
//	}
//
// It looks at what programs have published about themselves and at their workers' reports, at the numbers of all queues
// and poison queues, and at what the capabilities of the framework keep in the store: pauses, counters, gates, locks,
// turns, guards, schedules, instances of plans, settings, and reports of spools. Of a store in a file it also looks at
// the file's log, and at the process that writes there.
//
// A [Wrong] finding is one that somebody should do something about. A [Note] is good to know, and needs nobody. So a
// store with notes alone is well.
//
// # Laws
//
//   - A finding says what to do. An act that helps stands in its fix, as people type the act.
//   - An examination changes nothing. It rings the processes that listen, as any pause does, and they find no news.
//   - An examination is bounded: it looks at so many counters, gates, locks, keys and instances of each kind at most,
//     and a finding says so where there may be more. A document that can't be read is a finding, and keeps nobody from
//     the others. A store that can't be reached is an error.
//   - Messages that wait for long in a queue are one finding: if a pause or a level tells why, the finding is about
//     that.
//   - No finding shows the content of a message or of a document, nor the key of a turn: they may be personal.
//
// # Files
//
//	doctor.go       Finding and Examine
//	programs.go     what programs have published: kinds without handlers, clocks, old versions
//	collections.go  names that stand for different things
//	queues.go       consumers, lag and poison; lanes.go has lanes that nobody looks into
//	held.go         queues that a pause or a level holds
//	store.go        a store in a file, and processes that don't hear
//	coord.go        counters, gates and locks
//	guards.go       guards of outside services, and limits
//	turns.go        and so on: a file for each other capability
package doctor
