// Package catalog keeps in a store what its programs tell about themselves: which kinds a program handles, and what
// its workers have done lately. So a tool on any machine works on the store without their code, and without a
// connection to them.
//
//	err := catalog.Publish(ctx, registry, catalog.Program{Name: "shop", Version: "v1.4.0"})
//	catalog.Keep(ctx, registry, program)  // for a worker: publishes at once and once a day, until ctx ends
//	all, err := catalog.Read(ctx, store)  // for a tool
//
//	r, err := catalog.NewReporter(store, w, catalog.ReporterConfig{Program: "shop", Version: "v1.4.0"})
//	err = r.Run(ctx)                             // for a worker, beside its Run: a report each minute, until ctx ends
//	reports, err := catalog.ReadReports(ctx, store) // for a tool: the reports of the last minutes
//	rates := catalog.Rates(reports, catalog.Window)
//
// Package host does both for a program's workers.
//
// # What programs handle
//
// A program publishes one document, for its name and version. The document lists
//
//   - the queues of its routes, each with its kinds and what handles them here,
//   - the queues that an earlier build of the same version had, for 31 days, since messages may be in them,
//   - the kinds of message, each with an example and a JSON Schema of its body, and whether its type chooses its ID
//     and has a Check,
//   - the collections of values, the views and the plans that messages are folded into, with prints of their types.
//
// # What workers have done
//
// A worker publishes a row a minute in the table "pulse". The row has the counts of that minute, by queue and by kind,
// the messages in hand, and how long handlers took.
//
// The partition of a row is the hour in UTC, such as "07", of any day, and its key begins with its time. So the last
// minutes are in one partition or two, and old rows are found without a list of partitions.
//
// Each worker writes 60 rows an hour, and lists a partition once an hour. It deletes up to 100 old rows in one request.
//
// # Files
//
//   - catalog.go: the document; describe.go: how it is made of a registry; publish.go: how it is written, kept and read
//   - report.go: the row; reporter.go: how a worker writes it; rates.go and history.go: what a tool makes of it
//
// # Laws of the document
//
//  1. A document is written when what it says has changed, and otherwise once a day, so that its age is known. Any
//     other call reads the document and lists the container, and writes nothing.
//  2. A document that was not written for 31 days is removed by the next program that publishes anything. Its age is
//     by the store's clock. When there are more than 200 documents, the oldest one is removed as well. A program that
//     still runs writes its document again within a day.
//  3. Any number of workers may publish at the same time, of one version and of several. Each writes its own version's
//     document, guarded by its ETag. A lost race is repeated.
//  4. Schema and example come from the Go type by encoding/json's rules. The user's methods are called for an example
//     alone, guarded: one that panics, hangs or fails leaves its kind without an example.
//  5. A document has at most 1 MiB. Where it would have more, it is published without examples, and then without
//     schemas.
//  6. Keep never fails. A store that refuses a document is a warning in the registry's log.
//  7. A blob that is not such a document hides no other: [Read] returns it with its Fault.
//
// # Laws of reports
//
//  8. The reports of a worker add up to [worker.Worker.Counts]. A worker that stops publishes the rest in a last
//     report. A kill loses the counts since the last report.
//  9. A store that fails costs no count: the next report has them. Its time is longer, so its rate is right. If the
//     failed report was stored after all, the next report covers it, and [ReadReports] leaves it out. A warning tells
//     when trouble begins, and a line when it is over. The worker's own work depends on none of it. A stop waits three
//     seconds at most.
//  10. Rates come from elapsed time of the worker that has counted. Clocks only decide which reports are recent, and
//     may differ by a minute.
//  11. A row stays for 24 hours at least. A worker's first report in an hour removes the rows of this hour that are
//     older, 500 at most; the next report goes on. So whoever fills a partition empties it, and no partition has rows
//     of more than two days. Any number of workers may do that at the same time. A row of a clock that is ahead goes a
//     day after its time.
//  12. A row has at most 32 KiB. A report that would have more is published without kinds, and then without the queues
//     in which least was done.
//  13. Anybody who may write to the store may write anything here. [ReadReports] leaves out what is no report, and
//     reads at most 2,000 rows.
package catalog
