// Package catalog keeps in a store what its programs know about it, so that a tool works on the store without their
// code.
//
//	err := catalog.Publish(ctx, registry, catalog.Program{Name: "shop", Version: "v1.4.0"})
//	catalog.Keep(ctx, registry, program)  // for a worker: publishes at once and once a day, until ctx ends
//	all, err := catalog.Read(ctx, store)  // for a tool
//
// A program publishes one document, for its name and version. The document lists
//
//   - the queues of its routes, each with its kinds and what handles them here,
//   - the queues that an earlier build of the same version had, for 31 days, since messages may be in them,
//   - the kinds of message, each with an example and a JSON Schema of its body, and whether its type chooses its ID
//     and has a Check,
//   - the collections of values, the views and the plans that messages are folded into, with prints of their types.
//
// Package host calls Keep for a program's workers.
//
// # Laws
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
package catalog
