// Package fleet makes the breakers of all processes act as one, by a document that is written only when something
// changes. It tells the breaker of its process what the others have agreed on: the service is away, answers again, or
// asks to wait. Where the store fails, the breaker goes on by itself.
//
// # Files
//
//	record.go  when the breaker is open for all: the document, and what one process adds to it, a pure decision
//	ledger.go  the document in the store, and how old what it says is
//	fleet.go   when a process looks at the document
//	step.go    one look: what is written, and what the breaker is told
//	claim.go   the right to probe, which one process has at a time
//	list.go    the documents of a store, for people
package fleet
