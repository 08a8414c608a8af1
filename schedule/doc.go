// Package schedule sends commands at their times: durable cron in time zones, and intervals.
//
//	routes, err := channel.NewRoutes(schedule.Route(), channel.Command[BuildReport]("reports")) // for web and worker
//
//	schedule.Every(h, "nightly-report", schedule.Cron("15 3 * * *", "Europe/Berlin"), func(t schedule.Tick) BuildReport {
//		return BuildReport{Day: t.Due}
//	}, schedule.Config{})
//	schedule.Every(h, "sweep", schedule.Interval(10*time.Minute), func(t schedule.Tick) Sweep {
//		return Sweep{Run: t.Run} // the handler of Sweep emits or sends schedule.Done{Run: m.Run}
//	}, schedule.Config{Missed: schedule.None, Overlap: schedule.Skip})
//
// Any number of processes may register and run the same schedules. Operators have the verbs millrace schedules list,
// show, pause, resume, run and backfill. Their tools use [At] and [List].
//
// # How it works
//
// A schedule is a value object: a document in the collection "schedules", under the schedule's name. There is no
// leader, no lock and no polling. One delayed message, the wake, waits in the queue for the next due time. The worker
// that gets it decides in one unit of work: it sends the command, moves the document on to the next due time, and sends
// the next wake. The document says which wake counts, so a copy of a wake does nothing.
//
//	a worker starts ─register─▶ next: 03:15 ─wake of 03:15─▶ the command, next: 03:15 tomorrow ─wake─▶ …
//
// The next due time is computed from the one before. A worker's clock only tells how late it is. [Done] and the orders
// of operators are messages for the document, too. A pause is written into it at once.
//
// # Laws
//
//  1. The command of each due time is sent once, by any number of processes, whatever dies. Its ID follows from the
//     schedule and the due time, unless it chooses its own. The ID of a command that is more than a week late also
//     depends on when it is sent, because old IDs can't be judged.
//  2. Due times are missed if no worker takes them within Config.Grace. One command stands for all of them, or each is
//     made up for within a bound, or none, as Config.Missed says. The tick says which due times it stands for.
//  3. A Cron selects times that the clocks of a zone show. A time that they leave out is due when they go on. A time
//     that they show twice is due when they show it first. Two times that are due at one moment are one due time. Where
//     the rules of a zone have changed, a due time that was to come moves with its clocks.
//  4. A changed definition takes effect without a double and without a gap: the old one holds until the moment of the
//     change, and the new one after it. Where two versions of a program run, the worker that started last decides. A
//     definition that was replaced comes back ten minutes later at the earliest, so restarts during a roll-out cause no
//     ping-pong. A schedule that no worker has goes from worker to worker for an hour. Then it stops, and is shown as
//     orphaned, until a worker registers it again. The due times until then are missed.
//  5. With Skip and Queue, one run goes on at a time. It goes on until [Done] comes for it, or for Config.Longest:
//     a command may bring about others, so nothing else tells when its work is over. With Skip, due times are left out
//     while a run by the clock goes on. With Queue they wait; when ten wait, later ones count as missed. Runs that
//     operators ask for always wait for their turn.
//  6. Orders of operators are noted in the document: who, why, when and what. It keeps the last 20 changes and runs. A
//     pause and its end count from the order, not from when a worker learns of them.
//  7. A function of Every that misbehaves fails its own run, with the error noted, and the schedule goes on. The
//     function may be called again for one tick, where another process has changed the document meanwhile.
//  8. A wake that is lost in a poison queue stops its schedule until somebody sends it back, or until a worker starts:
//     that sends another wake. So does a worker that sees within a minute that its machine's clock was set, because a
//     clock that was wrong may have delayed the wake.
//
// A worker whose clock is ahead may send a command early, by as much, because it delays wakes by its own clock. It
// sends none twice.
//
// # Cost
//
// A due time costs a message that is handled, two that are sent, and the write of the document, which has 2 to 10 KB. A
// start costs a message for each schedule.
package schedule
