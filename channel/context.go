package channel

import (
	"context"
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/internal/post"
)

// Handled returns the attributes of the message that is being handled, without its data, and the queue that it came
// from. It is false outside of a handler.
func Handled(ctx context.Context) (e Envelope, queue string, ok bool) {
	h, ok := post.HandlingUnder(ctx)
	if !ok {
		return Envelope{}, "", false
	}
	e = h.Envelope
	e.Data = nil
	return e, h.Queue, true
}

// childID derives the ID of a message sent while another is handled. It depends on the content and the delay, not on
// the order of sends, so handlers may send from several goroutines. Its time is the handled message's time plus the
// delay, so a chain of delayed messages doesn't grow old.
func childID(h *post.Handling, k Kind, data []byte, delay time.Duration) string {
	sum := sha256.Sum256(data)
	content := string(k) + "\x00" + string(sum[:])
	if delay > 0 {
		content += delay.String()
	}
	return delayedID(h.Envelope.ID, delay, "sent by", h.Queue, content, strconv.Itoa(h.CountSent(content)))
}

// Trace is what a message inherits when no other message brought it about.
type Trace struct {
	Parent string // W3C traceparent
	Tenant string
}

type traceKey struct{}

// WithTrace returns a context under which messages carry a trace and a tenant, as a web tier takes them from a request.
// A message that is sent while another is handled has the trace and the tenant of that message instead.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}
