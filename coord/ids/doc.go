// Package ids gives out numbers that people can read: order numbers, invoice numbers, short and nearly consecutive,
// unique over all processes, on any *storage.Store. No process needs a number or a configuration of its own.
//
//	orders, err := ids.Open(store, "orders", ids.Config{})
//	…
//	n, err := orders.Next(ctx)  // 1042
//	s := ids.Format(n)          // "1042-9", with a check digit
//	n, err = ids.Parse(s)       // refuses a digit that was mistyped
//	…
//	err = orders.Close(ctx)     // gives back the numbers that were not used
//
// The truth is one small JSON document for each counter: the blob of the counter's name in the container "counters".
// It has the next number that is free. A process reserves a range of numbers by one write of that document, guarded
// by its ETag, and then gives out the range's numbers without another request:
//
//	next 1 ──A reserves 10──▶ next 11 ──B reserves 10──▶ next 21 ──A reserves 20──▶ next 41 ──A closes──▶ next 27
//
// When a fifth of a range is left, one goroutine fetches the next range. So a caller waits only for the first range
// of a process, or if a range was used up faster than the store answered. The end of its context ends its wait.
//
// # Laws
//
//  1. A number is given out once, for ever. It is in a range whose reservation was answered with success before. A
//     range is lost if the store didn't tell whether it was reserved. No number of it is ever given out.
//  2. The numbers of one Sequence grow: a call of Next that begins after another has returned gets a larger number.
//     Numbers of different processes don't tell which came first.
//  3. Gaps are bounded. A crash loses the rest of one range and the range that was fetched ahead; a lost answer of
//     the store loses one range. Close gives the rest back, unless another process has reserved since.
//  4. A range fits its use. It is twice as large as the one before if that lasts less than ten seconds, and half as
//     large if that lasts more than a minute, between 10 and Config.Most.
//  5. Next gives out nothing in doubt. It returns [ErrCorrupt] for a document that isn't a counter of that name,
//     [ErrBackwards] for a counter that is gone, or has less than this Sequence has reserved, and [ErrEnd] at the end
//     of int64. When the store fails, callers get its error only after the last number in hand; then a later call
//     tries again, at most every second if it goes on failing.
//  6. [Raise] never lowers a counter.
//
// Set Config.Most where many processes do short work, or may die, and gaps matter: with a small Most fewer numbers are
// lost. Then busy processes reserve more often.
//
// Elapsed time on one machine sets the size of a range, and nothing else depends on time. The document tells who
// wrote it last, and when by that machine's clock. That is for people.
//
// # The day after a restore
//
// An old backup of the store has an old counter: numbers that were given out since are free again. A Sequence that
// reserved them notices it at its next reservation, unless others have moved the restored counter past that point by
// then. A new process can't notice it. Nor can it tell a deleted counter from one that never was: a new counter
// begins at Config.First. So stop all programs before a restore, and before they start again raise the counter past
// every number that was ever given out:
//
//	millrace ids raise orders 5100 --yes --why TEXT
//
// Raise also repairs a document that can't be read, because only an operator can know the number. A process that runs
// meanwhile goes on with the ranges that it has in hand, and Raise can't take them away. After a restore their numbers
// may be larger than any that was seen. Where processes can't be stopped, raise the counter by twice Config.Most more
// for each process that has run since the backup; then they go on at the raised number. A process that has reserved
// more than that gets [ErrBackwards] at its next reservation. The error names the number to raise past.
//
// # Cost
//
// Next takes some nanoseconds and doesn't allocate. A range costs 2 requests (a read and a write), and 2 more for
// each lost race against another process. Close costs 1, Raise 2 at most, State 1, each without races. List costs 1
// for each page and 1 for each counter. An idle Sequence makes no request.
package ids
