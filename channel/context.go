package channel

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/internal/wire"
)

// Handled returns the attributes of the message that is being handled, without its data, and the queue that it came
// from. It is false outside of a handler.
func Handled(ctx context.Context) (e Envelope, queue string, ok bool) {
	h, ok := wire.HandlingUnder(ctx)
	if !ok {
		return Envelope{}, "", false
	}
	e = h.Envelope
	e.Data = nil
	return e, h.Queue, true
}

// Send sends messages from within a handler, through the channels that its messages come from; see [Channels.Send].
// Outside of a handler it returns an error.
func Send(ctx context.Context, messages ...Message) error {
	h, ok := wire.HandlingUnder(ctx)
	c, has := handlingChannels(h)
	if !ok || !has {
		return errors.New("channel: send: the context is not that of a handler; use the method Send of your channels")
	}
	return c.Send(ctx, messages...)
}

func handlingChannels(h *wire.Handling) (*Channels, bool) {
	if h == nil {
		return nil, false
	}
	c, ok := h.Channels.(*Channels)
	return c, ok
}

// Trace is what a message inherits when no other message brought it about.
type Trace struct {
	Parent string // W3C traceparent
	Tenant string
}

type traceKey struct{}

// WithTrace returns a context under which messages carry a trace and a tenant, as a web tier takes them from a request.
// A span of OpenTelemetry in the context goes before the trace. A message that is sent while another is handled has the
// trace and the tenant of that message instead.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}
