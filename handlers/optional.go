package handlers

import (
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
	case r.in.Optional[queue] != 0:
		r.fault("optional %s: said twice", storage.Quote(queue))
	}
	r.in.Optional[queue] = from
}
