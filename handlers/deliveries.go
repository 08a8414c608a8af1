package handlers

import (
	"context"

	"github.com/millrace-go/millrace/internal/wire"
)

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
