package handlers

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/storage"
)

// mostOptional is the highest level from which a queue may wait; see throttle.Level.
const mostOptional = 3

// Optional says that the messages of a queue may wait while the program leaves out work: from a level of 1, 2 or 3 on.
// The queue isn't consumed then. Its messages wait in it, and nothing is lost. Package host does that for the level in
// the program's live settings, and package worker/limiters for any other.
//
//	handlers.React(r, "recommendations", recommend)
//	handlers.Optional(r, "recommendations", 1)
func Optional(r *Registry, queue string, from int) {
	switch {
	case from < 1 || from > mostOptional:
		r.fault("optional %s: the level is %d; want 1 to %d", storage.Quote(queue), from, mostOptional)
	case r.optional[queue] != 0:
		r.fault("optional %s: said twice", storage.Quote(queue))
	}
	r.optional[queue] = from
}

// OptionalFrom returns the level from which the messages of a queue wait, or 0 if they never do.
func OptionalFrom(r *Registry, queue string) int { return r.optional[queue] }

// unhandledOptional returns a fault for each optional queue that has no handler.
func unhandledOptional(r *Registry) (faults []error) {
	for _, queue := range slices.Sorted(maps.Keys(r.optional)) {
		if len(r.handlers[queue]) == 0 {
			faults = append(faults, fmt.Errorf("optional %s: the queue has no handler", storage.Quote(queue)))
		}
	}
	return faults
}
