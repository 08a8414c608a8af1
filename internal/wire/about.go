package wire

import (
	"context"
	"reflect"
)

// RoutedKind is what the routes say about a kind.
type RoutedKind struct {
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
	Form       string // see handling.As

	Value  reflect.Type   // of the collection's values; nil for a reaction
	States []reflect.Type // see handling.As

	Clock bool // the fold reads the clock: repeated later, it may decide otherwise
	Once  bool // a reaction that notes each message, see handlers.ReactOnce
	Turns bool // a reaction that runs once at a time for each key, see handlers.OneAtATime

	// Unrecorded reports that the collection keeps no record of a message, see values.Config.Idempotent. It is nil for
	// a reaction, and true for a message on which that function fails.
	Unrecorded func(*Envelope) bool

	// Standing reports of a message that is due later that nothing waits for it; see handling.As. It may be nil.
	Standing func(*Envelope) bool

	// Key returns the key of the document that a message is for; ok is false for a message that the handler ignores.
	// Key is nil for a reaction. It calls the user's code, and returns an error for whatever that code does but hang.
	Key func(*Envelope) (key string, ok bool, err error)

	// Try tells what the handler would make of a message, and writes nothing. It is nil for a reaction. It calls the
	// user's code, as Key does, and gives up code that hangs.
	Try func(context.Context, *Envelope) (Tried, error)
}

// A Tried is what a handler would do to a document.
type Tried struct {
	Ignored       bool   // the message isn't for the handler
	Key           string // of the document
	Before, After []byte // the value, as JSON
	Emits         []Envelope
}
