package channel

import (
	"time"

	"github.com/millrace-go/millrace/internal/wire"
)

// NewID returns a new UUIDv7.
func NewID() string { return wire.NewID() }

// IDAt returns a new UUIDv7 that carries a time, in milliseconds. A message with that ID counts from that time: for 30
// days after it, a repeat is known as one.
func IDAt(t time.Time) string { return wire.IDAt(t) }

// IDTime returns the time that an ID carries: the milliseconds of a UUIDv7 in its canonical lower-case form.
// Any other ID is an idempotency key and carries none; its time stands beside it (see [Identified]).
func IDTime(id string) (t time.Time, ok bool) { return wire.IDTime(id) }

// DerivedID returns the ID of a message that follows from another one. It is a pure function of the parent's ID and of
// parts, which tell the children of one parent apart. It keeps the parent's time if the parent's ID is a UUIDv7;
// otherwise it is a UUIDv8.
func DerivedID(parent string, parts ...string) string { return wire.DerivedID(parent, parts...) }
