// Package pulse keeps in a store what its workers have done lately, so that a tool on any machine shows rates without a
// connection to the workers.
//
//	p, err := pulse.New(store, w, pulse.Config{Program: "shop", Version: "v1.4.0"})
//	err = p.Run(ctx)                    // for a worker, beside its Run: publishes every minute, until ctx ends
//	all, err := pulse.Read(ctx, store)  // for a tool: the pulses of the last minutes
//	rates := pulse.Rates(all, pulse.Window)
//
// A worker publishes a row a minute. It has the counts of that minute, by queue and by kind, the messages in hand, and
// how long handlers took. Package host runs it beside a program's worker, and ends it after the worker.
//
// The partition of a row is the hour in UTC, such as "07", of any day, and its key begins with its time. So the last
// minutes are in one partition or two, and old rows are found without a list of partitions.
//
// # Laws
//
//  1. The pulses of a worker add up to [worker.Worker.Counts]. A worker that stops publishes the rest in a last pulse.
//     A kill loses the counts since the last pulse.
//  2. A store that fails costs no count: the next pulse has them. Its time is longer, so its rate is right. If the
//     failed one was stored after all, the next one covers it, and [Read] leaves it out. A warning tells when trouble
//     begins, and a line when it is over. The worker's own work depends on none of it. A stop waits three seconds at
//     most.
//  3. Rates come from elapsed time of the worker that has counted. Clocks only decide which pulses are recent, and may
//     differ by a minute.
//  4. A row stays for 24 hours at least. A worker's first pulse in an hour removes the rows of this hour that are
//     older, 500 at most; the next pulse goes on. So whoever fills a partition empties it, and no partition has rows of
//     more than two days. Any number of workers may do that at the same time. A row of a clock that is ahead goes a day
//     after its time.
//  5. A row has at most 32 KiB. One that would have more is published without kinds, and then without the queues in
//     which least was done.
//  6. Anybody who may write to the store may write anything here. [Read] leaves out what is no pulse, and reads at most
//     2,000 rows.
//
// # Cost
//
// Each worker writes 60 rows an hour, and lists a partition once an hour. It deletes up to 100 old rows in one request.
package pulse
