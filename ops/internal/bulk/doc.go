// Package bulk does one act on many messages of the poison queues: all that match a filter go back to their queues, or
// are discarded. A bulk act is a document, which any process may go on with: kill the process anywhere, and another one
// does the rest.
//
//	a, err := bulk.Ask(ctx, call, bulk.Retry, bulk.Filter{Kind: "orders.place.v1"})
//	driver := &bulk.Driver{Channels: channels}
//	a, err = driver.Follow(ctx, a.ID, bulk.Follower{}) // do it now, or
//	driver.Run(ctx)                                    // do all acts in the background
//
// # How an act goes
//
// A person may be shown first what the act would do: Show then notes what stands in the poison queues, and Ask under
// the same ID chooses from nothing else. Asking writes two blobs of the container "bulk". The set has a digest of
// each entry that stands in the poison queues, with its ETag. The document has the filter, who asked and why, the
// state, the counts, and a cursor. The set is there as long as the act goes on. So a process finds the acts that go
// on by a listing of the sets. The document stays for ever.
//
// A driver puts its right into the document: an ID at random. The driver looks at the entries behind the cursor, in the
// order of queues and keys. It makes pages of those that are in the set and fit the filter. A page is settled in two
// steps:
//
//	write the document, with the page and the new cursor, and send the messages of the page: one unit of work
//	remove the entries of the page, each if its ETag is still the one in the page
//
// The write of the next page has the counts of this page. At the end the driver notes the end in the audit log, writes
// the time of the end into the document, and deletes the set.
//
// Each write of the driver renews its right. Another driver takes the act over 7/6 of the TTL after it saw the last
// write. The old driver does nothing more 5/6 of the TTL after it began that write: see package agree. A driver that
// finds a page in the document settles that page first.
//
// # Laws
//
//   - An entry is chosen if it stood in the poison queues when the act was asked for, or shown before, is still the
//     same when the driver comes to it, and fits the filter. An entry that comes later isn't chosen. A message that
//     was poisoned again isn't either, because its entry has another ETag. No clock decides this.
//   - The filter is evaluated when the driver comes to an entry, by the code of the list of poison messages.
//   - A message that is sent back is in its queue, in the poison queue, or in both: never in neither.
//   - Where a unit of work is atomic, an act sends each chosen message once, whatever crashes, and however many drivers
//     there are. For a page and its messages are one write, and of two writes of a page one loses its race.
//   - Elsewhere an act may send a message twice, if its driver dies or stands still between the sending and the
//     removal. Both copies have one ID, and are one decision to repeat an effect. A message that was poisoned again in
//     between is not sent again.
//   - The counts are those of what the act has done. An entry also counts as done if another driver had it in its page
//     when it died, or if somebody removed it after its message was sent.
//   - An entry that can't be settled is counted, and stays. It keeps no other entry back. A page that can't be
//     written is settled entry by entry.
//   - A driver that was woken looks at each act that goes on, also at an act that it was just about to leave.
//   - Paused and cancelled acts send nothing more once their driver has seen the change. It finishes its page first.
//   - The audit log has the beginning of the act, and its end with the counts. The end is noted before the document
//     says that the act has ended.
//   - While no act goes on, nobody asks the store anything.
//
// Two acts may have the same messages, and so may an act and an operator who retries one message. Then both send a
// message only if both read its entry before either has removed the entry. Both copies have one ID.
//
// # Files
//
//	document.go  Act, its document, and the set
//	ask.go       what operators do: ask, list, and set the state
//	driver.go    Driver, which does acts; drive.go does one
package bulk
