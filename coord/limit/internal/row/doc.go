// Package row keeps a process's row in the document that divides a number, and the process's bucket by that. See
// package limit for the laws.
//
// A [Keeper] looks, decides and writes on a goroutine of its own, which runs while its bucket is used. So nothing here
// needs a mutex: what must be seen by calls, too, is in the bucket.
//
// # Files
//
//	document.go  the document: its rows, how it is read and written, and what each member is to have by it
//	sight.go     what was seen of the document, and since when: which rows count as dead
//	divide.go    what a write makes of the document: pure
//	keeper.go    look, divide, write, and withdraw
//	pace.go      when the next look is due
//	outage.go    for how long the store has been away
package row
