// Package poisoned knows which messages of the poison queues an operator means, and which keys they have halted. Acts
// decide what becomes of the messages.
//
//	picked, err := (&poisoned.Selection{Kind: "orders.place.v1"}).Pick(ctx, call)
//
// # Laws
//
//   - An entry that was picked has no content: its body and the text of its failure may be personal.
//   - Errors of one cause have one fingerprint, which tells nothing of their text.
//   - A limit bounds the work, whatever the queues hold: the latest entries are looked at, and a note says so.
//   - Somebody who looks for content may see it. A secret is never found.
//   - If no message has an ID, that is an error beside the entries that were found.
//   - A halt that can't be read keeps nobody from settling the entry. A note says so.
//
// # Files
//
//	pick.go   Selection and Entry
//	latest.go a bounded number of the latest entries; groups.go groups them
//	print.go  fingerprints; content.go looks into messages
//	halts.go  the keys
package poisoned
