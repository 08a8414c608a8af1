package channel

import (
	"time"

	"github.com/millrace-go/millrace/internal/wire"
)

// Kind is the stable name of a type of message on the wire, for example "reservations.make.v1". It is a string of 1 to
// 100 lower-case letters, digits, dots and hyphens, and begins with a letter. Its method Check refuses any other. A
// kind is chosen, never derived from a Go name, so that code can be renamed while messages are under way.
type Kind = wire.Kind

// A Message is a Go type that names its kind. Kind must return the same for every value of the type, the zero value
// included. The value is encoded by encoding/json's rules. A field that is not exported doesn't arrive, and the route
// refuses a type that has no other field. Text must be UTF-8.
type Message interface {
	Kind() Kind
}

// Identified is a message that chooses its own ID: 1 to 128 bytes without control characters. Two messages with the
// same ID count as one for receivers that remember IDs; the package's first law names them. For an empty ID the channel
// makes one.
//
// An ID that is a UUIDv7 states the time of the message (see [IDAt]). A message that arrives more than 30 days after
// that time can't be judged any more. So a message that may be sent long after the time in an ID (a cancellation) needs
// another ID. With a delay it counts from when it is due; give all sends of such an ID a delay, or none.
//
// An ID of any other form is an idempotency key. Beside it in the envelope stands the time of the send, with its delay.
// For a message that is sent while another is handled, it is that message's time.
//
//   - Two sends of a key count as one message if their times are at most 30 days apart.
//   - A send that is handled more than 30 days after its time can't be judged. It goes to the poison queue.
//   - A send more than 30 days after the first counts as a repeat only as long as the first is remembered. After that
//     it is another message, and nothing tells so. A key that may come again later should hold what makes it another:
//     "order-17/2027".
type Identified interface {
	MessageID() string
}

// Subjected is a message that names what it is about. That becomes the envelope's subject. Messages that a value
// object emits get its key as their subject without this.
type Subjected interface {
	Subject() string
}

// Checked is a message that can tell whether it makes sense. Every Send calls Check, and so does the worker before it
// hands the message to a handler. Check must be pure. A message that is refused isn't sent, with an error that matches
// [ErrRefused]; one that comes from elsewhere goes to the poison queue.
type Checked interface {
	Check() error
}

// After returns a message that is due after a delay: wherever messages are sent or emitted, it is handled no earlier.
// The delay is at most ten years. It counts from when the message is sent; for a message that a value object emits,
// that is the time of the decision. After of a message that is due later already adds to its delay. A negative delay is
// none.
func After(d time.Duration, m Message) Message {
	w := wire.Wrap(m)
	w.When = w.When.AddTo(d)
	return w
}

// At returns a message that is due at a time, at most ten years ahead, whatever it was due at before. It is handled no
// earlier. One that was due in the past is handled at once.
func At(t time.Time, m Message) Message {
	w := wire.Wrap(m)
	w.When = wire.When{At: t}
	return w
}

// KindOf returns the kind of a message type.
func KindOf[M Message]() Kind {
	return wire.KindOf[M]()
}
