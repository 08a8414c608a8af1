package wire

import "context"

// A Spool keeps messages on this machine while the store is away, and sends them when it is back. Package spool has
// one.
type Spool interface {
	// Send sends envelopes by try, or keeps them, and says which. try may not be called at all.
	Send(ctx context.Context, envelopes []Envelope, try func(ctx context.Context) error) (kept bool, err error)

	// Away returns an error while the store is known to be away, and nil otherwise.
	Away() error

	// Waiting is the number of messages that wait for the store.
	Waiting() int64

	// Unsent is the number of messages that may still be sent: messages that wait, and messages that were set aside.
	Unsent() int64
}
