// Package values keeps documents that change by messages, each message exactly once. They are the value objects that
// commands decide on, and the views that events are folded into.
//
//	stock := values.New(channels, "stock", values.Config[Stock]{})
//	handlers.Decide(registry, stock, Buy.Key, Stock.Buy, Bought{}) // workers apply the commands
//	s, err := stock.Get(ctx, "teapot", "")                         // s.Value, s.Version, s.ETag
//
// A document is one blob, written under its ETag. It holds a value together with its replay record: the messages that
// it has applied. [Collection.Apply] takes the messages received for one document, folds them into it in one
// read-modify-write, and ends their deliveries, all as one [storage.Work]:
//
//	load -> judge each message -> change the value -> take old entries out of the record -> commit
//	  ^           | applied before: a replay                                                  |
//	  |           +-> send what is pending for it, delete it                                  |
//	  +--- back off, reload, fold again ------------- another process has written first ------+
//
// The commit writes the rows and the document, sends the emissions and deletes the messages. Emissions are the messages
// that the changes emit: events and commands, to be handled at once or later (channel.After).
//
// # Laws
//
//  1. A message changes its document once. Its ID is recorded in the same write that applies it. Where several
//     subscriber groups take an event to one document, it changes the document once for each: the record has the ID
//     with the group.
//  2. Write, then send, then delete. An engine with an atomic Commit does all three at once. On an engine without one,
//     a worker may die before it has sent the emissions. So there the write also records them as pending. Then one of
//     two things happens. The message comes back, and its replay sends what is pending for it. Or the next writer of
//     the document finds entries older than Config.PendingAfter, and sends them before the write that leaves them out.
//     No write is made only to clear pending. An emission leaves pending only after it has been sent.
//  3. An emission is one message, made by the decision that was written; every copy of it is the same. Its ID is
//     derived from its message's ID, its source and its index, unless it chooses one. A delay counts from that
//     decision, never from a replay: all copies are due at the same time, and one that is sent later waits for what is
//     left. So a copy is a repeat that the next stage recognises.
//  4. The record is a window. When it has grown past twice Config.Window, the oldest entries become rows of a table,
//     no later than the write that forgets them. The document's watermark becomes the newest time of an ID that left.
//     Only entries of a committed document become rows. An ID newer than the watermark is judged by the window alone.
//     An ID at or before it is judged by its row. So is an idempotency key, once anything has left: an ID that carries
//     no time, or one that was chosen and sent with a delay. Another copy of it may have another time. A row is read by
//     itself, or in one query with those of the same fold. Wrong clocks cost reads, not correctness. A row may be newer
//     than the document that was read before it. So a replay that only its row shows is believed only if the document
//     is still the one stored.
//  5. A message's age counts from the time in its ID, or from that beside it (the envelope's Since, or else its Time).
//     A message from elsewhere without any time counts from when it comes. Rows are kept for Config.Retention after
//     that time. A message older than that and not in the window can't be judged: [ErrTooOld]. Rows of idempotency keys
//     are kept twice as long. So two sends of one key whose times are within Retention are one message, however late
//     they are handled. A send with a later time is a repeat as long as the document remembers an earlier one. After
//     that it is another message, and is applied. Older rows are deleted now and then, after a commit; no other verdict
//     depends on when.
//  6. The same ID with other content is [ErrContentDiffers] for as long as the document remembers the ID.
//  7. A message that fails fails alone: the others are folded as if it had not been there.
//  8. A pending emission whose body is too large for a message keeps it in a blob beside the document. The blob belongs
//     to the one try that wrote it, before the unit of work. It is deleted when the document was certainly not written
//     with it (a lost race, a failure before), or when a later write has left its emission out. When the outcome is
//     unknown it stays. So a crash or a lost answer may leave a body without a reference, never an emission without its
//     body.
//  9. A decision sees its value as the stored JSON gives it back: an int in an any is a float64, a field that isn't
//     stored is zero, and maps and slices are its own. It makes no difference whether the document was in memory, or
//     whether the message came alone or with others. Only the value of [Config.Initial] is seen as it is.
//  10. A value may recognise repeats by itself, because it holds what was applied. The messages that Config.Idempotent
//     names get no entry in the record and no row. So laws 4 to 6 don't concern them: none is too old, and none differs
//     from another. Such a message is folded whenever it comes, with one exception. While its emissions are pending, it
//     is a replay, which sends them: its fold would not emit them again. So no two such messages share an ID.
//  11. A fold that returns [ErrUnchanged] ends its message, and that is all: no version, no entry, no emission. A unit
//     of work whose folds all do so writes no document; an absent one stays absent. Where the document was in memory,
//     the one in the store must be the same then.
//
// # Types of values
//
// A value is stored by encoding/json's rules. [Collection.Check] refuses a type of which nothing would be kept, because
// no field is exported. Handlers log once which fields a type loses. Text that is not UTF-8 fails the message that put
// it there.
//
// For law 9 a changed value is encoded and decoded at once, unless it is known to come back as it is. Numbers, text,
// booleans, times in UTC, a jsontext.Value that has neither spaces nor needless escapes, and structs, slices, maps and
// pointers of those come back as they are, as long as
//
//   - all fields are stored,
//   - nothing is referred to twice,
//   - nothing empty is there that omitempty makes nil.
//
// Other types cost an encoding and a decoding of the whole value for each message of a fold: interfaces, fields that
// aren't stored, types with methods like MarshalJSON, and types that contain themselves. Don't put a map or slice that
// other code holds, such as a package's variable, into a value.
//
// # Changing a type
//
// While a program is updated, two versions of it work on the same documents. A version keeps the members that its type
// doesn't know when it writes the document. It keeps them in objects within objects, and in the objects of a map as
// long as their key is there. It can't keep them
//
//   - in arrays, whose elements have nothing to be known by,
//   - within an object that was null or absent in between,
//   - in a type that decodes itself.
//
// So a new member needs one release. To change the meaning, name or type of a member takes two. The first release reads
// both forms and writes the old one, or both. When no process of an older version runs any more, the second release
// writes the new form alone. A member that no version knows any longer stays in the documents that have it.
package values
