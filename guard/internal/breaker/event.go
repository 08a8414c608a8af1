package breaker

import "time"

// Event is something that happens to a breaker.
type Event struct {
	Kind EventKind
	ID   string        // of the message of an overdue call
	Last string        // the last error of a call
	Took time.Duration // the outage, or the overdue call, so far
	Next time.Duration // until the next probe
}

// EventKind says what happens.
type EventKind int

// The events of a breaker.
const (
	Opened       EventKind = iota // after it was closed
	Stays                         // open
	Recovers                      // the service answers
	Relapses                      // it opens again, soon after
	IsClosed                      // calls go on as before
	Overdue                       // a call keeps its place for too long
	Inconclusive                  // a probe told nothing of the service
	CallsFail                     // of a closed breaker, so other processes may have reported an outage
	Stuck                         // it stayed shut beyond its time
)

// Actions are what a machine asks its caller to do.
type Actions struct {
	Events  []Event
	Changed bool      // workers are to ask for their limits again
	Wake    time.Time // when to call Wake; zero: never
	Watch   time.Time // when to call Watch; zero: never
}

func (a *Actions) tell(e Event) { a.Events = append(a.Events, e) }
