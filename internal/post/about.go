package post

import "reflect"

// Routed is what the routes say about a kind.
type Routed struct {
	Kind    Kind
	Message reflect.Type
	Command bool
	Queues  []string // of an event: its subscriber groups
}

// Handled is what a registry says about a kind in a queue.
type Handled struct {
	Queue      string
	Kind       Kind   // as it is received; an older kind has an entry of its own
	Name       string // of the handler, for people
	Collection string // that it folds into; empty for a reaction
	Group      string // under which the collection's record has the message, see values.Change; empty for none
	View       bool   // that collection is a view
	Once       bool   // a reaction that notes each message, see handlers.ReactOnce

	// Key returns the key of the document that a message is for. It is nil for a reaction. It calls the user's code, and
	// returns an error for whatever that code does but hang.
	Key func(*Envelope) (string, error)
}
