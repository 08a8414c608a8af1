// Package values keeps documents that change by messages, each message exactly once: the value objects that
// commands decide on, and the views that events are folded into.
//
// A document is one blob, written under its ETag, that holds a value together with its replay record: which
// messages it has applied. [Collection.Apply] takes the messages received for one document, folds them into
// it in one read-modify-write, and ends their deliveries, all as one [storage.Work]:
//
//	load ─▶ judge each message ─▶ change the value ─▶ take old entries out of the record ─▶ Commit(rows, write, send, delete)
//	 ▲            │ applied before: a replay                                               │ somebody wrote first
//	 │            ▼ send what is still pending for it, delete                              │
//	 └─────────────────────────────────────────────────────────────────────────────────────┘ back off, reload, refold
//
// # Laws
//
//  1. A message changes its document once. Its ID is recorded in the same write that applies it.
//  2. Write, then send, then delete. On an engine that does all three at once there is nothing more to it.
//     On one that can't, the write also records the events as pending, because a worker may die before it
//     has sent them. Then either the message comes back, and its replay sends what is pending for it, or
//     the next writer of the document finds entries older than Config.PendingAfter and sends them before
//     the write that leaves them out. Nobody writes only to clear pending. An event leaves pending only
//     after somebody has sent it.
//  3. An event's ID is derived from its message's ID, its source and its index, so that sending it again is a
//     repeat that the next stage recognises.
//  4. The record is a window. When it has grown past twice Config.Window, the oldest entries by the time in their
//     IDs become rows of a table, no later than the write that forgets them, and the document's watermark becomes the
//     newest time that left. Only entries of a committed document become rows. An ID newer than the watermark
//     is judged by the window alone; one at or before it, or one that carries no time once anything has left,
//     by its row, which is read by itself, or together with those of the same fold in one query. Clocks may be wrong:
//     that costs reads, not correctness. A row may be newer than the document that was read before it: a replay found
//     by its row alone is believed only of a document that is still the one stored.
//  5. Rows are kept for Config.Retention. A message whose ID is older than that and not in the window can't
//     be judged: [ErrTooOld]. Rows of IDs without a time are kept for ever. Older rows are forgotten now and then, after
//     a commit; nothing rests on when.
//  6. The same ID with other content is [ErrContentDiffers] for as long as the document remembers the ID.
//  7. Messages that fail fail alone: the others are folded as if it had not been there.
//  8. What a pending event keeps beside the document, a body too large for a message, belongs to the one try that wrote
//     it. It is written before the unit of work. It goes when it is certain that the document was not written with it (a
//     lost race, a failure before), or when a later write has left its event out. When the outcome is unknown it
//     stays: so a crash or a lost answer may leave a body that nobody refers to, never an event without its body.
//  9. A decision sees its value as the stored JSON gives it back, whether the document was in memory or not, and
//     whether its message came alone or with others: an int in an any is a float64, a field that isn't stored is zero,
//     and maps and slices are its own. Only the value of [Config.Initial] is seen as it is.
//
// # Types of values
//
// A value is stored by encoding/json's rules. A type of which nothing would be kept, because no field is exported, is
// refused by [Collection.Check]; handlers log once which fields a type loses. Text that is not UTF-8 fails the message
// that put it there.
//
// For law 9 a changed value is encoded and decoded at once, unless it is known to come back as it is. That is so for
// numbers, text, booleans, times in UTC, and structs, slices, maps and pointers of those, as long as all fields are
// stored, nothing is referred to twice, and nothing empty is there that omitempty makes nil. With interfaces, fields
// that aren't stored, types with methods like MarshalJSON and types that contain themselves each message of a fold
// costs an encoding and a decoding of the whole value. Don't put a map or slice that others hold, such as a package's
// variable, into a value.
//
// # Changing a type
//
// While a program is updated, two versions of it work on the same documents. Members that a type doesn't know are kept
// when it writes the document: in objects within objects, and in those of a map as long as their key is there. They are
// not kept in arrays, whose elements have nothing to be known by, nor within an object that was null or absent in
// between, nor in a type that decodes itself. So a new member needs one release. To change the meaning, name or type of
// a member takes two: the first reads both forms and writes the old one, or both; when no process of an older version
// runs any more, the second writes the new one alone. A member that no version knows any longer stays in the documents
// that have it.
package values
