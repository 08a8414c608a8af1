// Package look is what the acts of operators (package acts), their doctor (package doctor) and their screen (package
// watch) look at alike: the queues of a store with their numbers and consumers, what keeps them from being consumed,
// and the words for both.
//
// It looks at a store through the desk of package act. It changes nothing there, and knows neither acts nor findings.
//
//	queues.go  which queues there are, their numbers, and who consumes them
//	held.go    queues that are paused, and queues that wait for their level
//	states.go  gates, locks and turns of keys
package look
