// Package poisoned knows which messages of the poison queues an operator means, and which keys they have halted. Acts
// decide what becomes of the messages.
//
//	picked, err := (&poisoned.Selection{Kind: "orders.place.v1"}).Pick(ctx, call)
//
// # Laws
//
//   - An entry that was picked has no content: its body and the text of its failure may be personal.
//   - If no message has an ID, that is an error beside the entries that were found.
//   - A halt that can't be read keeps nobody from settling the entry. A note says so.
//
// # Files
//
//	pick.go   Selection and Entry
//	halts.go  the keys
package poisoned
