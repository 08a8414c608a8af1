// Package breaker is the circuit breaker of one process as a machine: it gets what happens and the time, and says what
// follows. It holds no mutex, starts no timer and knows no store, so each of its states can be reached in a test by
// calls alone. Its caller holds a mutex, sets the alarms of [Machine.Take], and says the events.
//
//	closed ─ too many fail ─▶ open ─ time ─▶ due ─ a call begins ─▶ probing ─ done ─▶ ramping ─ all goes well ─▶ closed
//	                           ▲              ◀─ the call tells nothing ─ │              │
//	                           └──────────────── it fails; longer ────────┴─ several fail ┘
//
// A breaker is shut while it is open or probing. In both there is an alarm, which leaves the state whatever else
// happens.
//
// # Files
//
//	machine.go   states, permits, what the end of a call changes, and when a breaker opens again
//	ramp.go      how calls begin again after an outage
//	others.go    what other processes have told: an outage, a recovery, a pause
//	window.go    when a closed breaker opens, by the calls of the last while
//	messages.go  whether a failure counts as an attempt, by the messages whose calls were done and failed last
//	event.go     what is told to people and to other processes
package breaker
