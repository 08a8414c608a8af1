package driver

import (
	"context"
	"iter"
)

// A Lister names queues. An operator's tools use it: it finds messages in a queue that no program tells of.
type Lister interface {
	// Queues yields the names of the queues that hold messages, each once, in no particular order. A queue without
	// messages may be among them. It reads in pages as the loop goes on, so it is no snapshot; an error is yielded last
	// and once.
	Queues(ctx context.Context) iter.Seq2[string, error]
}
