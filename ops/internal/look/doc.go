// Package look has what acts (package acts), findings (package doctor) and the screen top (package watch) look at
// alike: the queues of a store with their numbers and consumers, what keeps queues from being consumed, and the words
// for both.
//
// A look goes through the desk of package act, and changes nothing in the store.
//
//	queues.go  which queues there are, their numbers, and who consumes them
//	held.go    queues that are paused, and queues that wait for their level
//	states.go  gates, locks and turns of keys
package look
