package handlers

import (
	"context"

	"github.com/millrace-go/millrace/internal/wire"
)

// Attempt returns which attempt at its message a handler is: n counts from 1, and counts what a handler has refused: a
// run that died with its process spends no attempt, so n == 1 may come again. most is how many there are at most, by
// the queue's worker.QueueConfig. When n >= most fails, the message goes to the poison queue. A handler that wants
// fewer attempts than its queue gives them returns [Poison]:
//
//	if n, _ := handlers.Attempt(ctx); n >= 3 {
//		return handlers.Poison("declined", err)
//	}
//
// A message may also go to the poison queue earlier, such as after three hangs. Both numbers are 0 outside of a
// handler; most is 0 where no worker runs it. A decision has no context and no attempts: it is pure.
func Attempt(ctx context.Context) (n, most int) {
	h, ok := wire.HandlingUnder(ctx)
	if !ok {
		return 0, 0
	}
	return h.Envelope.Attempts + 1, wire.MostAttempts(ctx)
}

// Deliveries returns how often the message that a handler handles was delivered, with this time. It counts what
// [Attempt] doesn't: deliveries whose process died, and those that ended for no fault of the message. More than 1 says
// that a handler may have had it before. It is 0 outside of a handler.
func Deliveries(ctx context.Context) int {
	h, ok := wire.HandlingUnder(ctx)
	if !ok {
		return 0
	}
	return h.Deliveries
}
