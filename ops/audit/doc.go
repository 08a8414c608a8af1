// Package audit remembers what operators did with a store: who, what, why, from where, and with what result.
//
// A row says what somebody meant to do before it is done. A second row says how it ended. So an act whose process died
// in between is known, too: nobody knows its result, and the log says so.
//
//	entry := audit.Entry{ID: audit.NewID(), Who: "ada", Act: "poison retry", On: "queue mails", Why: "the server is up"}
//	known, err := log.Begin(ctx, entry) // before the act; an error forbids the act
//	if err == nil && !known.Done() {
//		result, failed := retry(ctx)
//		err = log.End(ctx, entry, result, failed)
//	}
//
// # Laws
//
//   - An act that has begun has a row before it has an effect. Without the row nothing is done.
//   - Rows are only added. Nothing here changes or deletes a row.
//   - An act has one ID. A caller who begins with a known ID gets what was meant then and how it ended, and another
//     act under that ID, or the same with another content, is refused. So a form that is sent twice has one effect.
//   - An entry has the answer of its act, as far as a row has room, for a caller who begins with the known ID. Nobody
//     who reads the log is shown the answer.
//   - An act ends no earlier than it has begun, whatever the clock of the machine that has ended it.
//   - A row has no body of a message and no value of a document. Callers write what the act was about, not what was in
//     it. Texts are cut at a bound, and have no control characters.
//
// Somebody who can write to the store can rewrite the log, too. The log tells colleagues what happened; it is no proof
// against one who has the keys of the store.
//
// # Requests
//
// An act costs two writes. A listing costs one query for each day that it passes.
package audit
