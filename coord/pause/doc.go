// Package pause keeps which queues an operator has paused by hand. It works on any *storage.Store.
//
//	pauses, err := pause.New(store, pause.Config{})
//	err = pauses.Pause(ctx, []string{"mails"}, 30*time.Minute, pause.Note{By: "ada", Why: "the mail server is down"})
//	err = pauses.Resume(ctx, "mails")
//	all, err := pauses.List(ctx)
//	for all := range pauses.Watch(ctx) { … } // the pauses in force, now and after each change
//
// An operator does it by "millrace queues pause". Package worker/limiters keeps workers from consuming a paused queue.
//
// # How it works
//
// All pauses of a store are one blob: "queues" in the container "pauses". Without a blob nothing is paused. Each change
// replaces the blob by a guarded write, and tells the watches where the store rings. A watch reads the blob when it is
// told, and every 30 seconds. So one watch serves all queues of a process.
//
// A pause may have a length. Nobody compares clocks to keep it, as far as that can be avoided:
//
//   - A watch that runs when the pause begins counts the length down by the elapsed time of its own machine, from the
//     moment when it sees the pause. A wrong clock shortens that by the age of the watch's last read, so by half a
//     minute at most.
//   - A watch that begins later can't know how much of the length is left. It takes that from the end that the pause
//     announces and its machine's clock, and counts down from then on. It never counts more than the length.
//   - The first watch of the first sort that has counted to the end takes the pause out of the blob. From then on the
//     pause is over for all, whatever their clocks say.
//
// # Laws
//
//   - A pause holds until it ends or somebody resumes the queue: over restarts of all processes, and while the store
//     can't be read. No answer but that of the blob, or that there is none, ends it.
//   - Before a watch has read the blob for the first time, it says nothing. So its user knows nothing, and waits.
//   - A blob that can't be read as pauses changes nothing. Watches go on with what they knew. Changes are refused
//     until [Pauses.Repair], and say so.
//   - A pause with a length ends by itself, also while the store can't be reached.
//   - A change has its effect once at most. If its answer is lost and somebody else has changed the pauses since, it is
//     not repeated, and the error says that its outcome is unknown.
//   - A ring, however spurious, only makes a watch read the blob.
//
// # Cost
//
//   - A watch reads the blob some 130 times an hour, whatever the number of queues and pauses, and is nearly always
//     answered "not modified" or "not found". To listen costs what storage.Store.Subscribe costs, once. Each change
//     costs each watch one read.
//   - Pause and Resume are a read, a write, and what storage.Store.Publish costs.
//   - At the end of a pause each watch makes a write. One succeeds, and the others read.
package pause
