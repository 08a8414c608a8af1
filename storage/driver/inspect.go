package driver

import "context"

// An Inspector tells what is wrong with the engine itself, such as a disk that is full, or a copy that lags. An
// operator's tools use it. An engine that a provider looks after may have none.
type Inspector interface {
	// Inspect looks at the engine. It changes nothing, and costs a few requests, whatever the store holds. It returns a
	// fault once, with one cause, and no two faults of a name. An engine that doesn't answer is an error.
	Inspect(ctx context.Context) ([]Fault, error)
}

// A Fault is what an operator should know about an engine. No text of it holds a secret.
type Fault struct {
	Name string // what the fault is about: lower-case letters and hyphens, the same while its numbers change
	Text string // what is wrong, and what follows from it; one line that begins in lower case
	Fix  string // what to do about it; sentences
	Note bool   // it is good to know, and nobody has to do anything
}
