package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"sync"
	"time"
)

// handling is what a handler's context holds about the message that it handles.
type handling struct {
	envelope Envelope
	group    string

	mu   sync.Mutex
	sent map[string]int // how often this content was sent with this delay while handling
}

type handlingKey struct{}

// Handling returns a context for handling a message that came from a queue (its subscriber group). Messages sent under
// it continue the message's chain.
func Handling(ctx context.Context, e *Envelope, queue string) context.Context {
	return context.WithValue(ctx, handlingKey{}, &handling{envelope: *e, group: queue})
}

// Handled returns the attributes of the message that is being handled, without its data.
func Handled(ctx context.Context) (e Envelope, queue string, ok bool) {
	h, ok := ctx.Value(handlingKey{}).(*handling)
	if !ok {
		return Envelope{}, "", false
	}
	e = h.envelope
	e.Data = nil
	return e, h.group, true
}

// HandledContent returns a digest of the kind and data of the message that is being handled. It tells whether a message
// with the same ID is the same message. It is empty outside of handling.
func HandledContent(ctx context.Context) string {
	h, ok := ctx.Value(handlingKey{}).(*handling)
	if !ok {
		return ""
	}
	sum := h.envelope.Content()
	return hex.EncodeToString(sum[:12])
}

// childID derives the ID of a message sent while another is handled. It depends on the content and the delay, not on
// the order of sends, so handlers may send from several goroutines. Its time is the handled message's time plus the
// delay, so a chain of delayed messages doesn't grow old.
func (h *handling) childID(k Kind, data []byte, delay time.Duration) string {
	sum := sha256.Sum256(data)
	content := string(k) + "\x00" + string(sum[:])
	if delay > 0 {
		content += delay.String()
	}
	h.mu.Lock()
	if h.sent == nil {
		h.sent = map[string]int{}
	}
	n := h.sent[content]
	h.sent[content]++
	h.mu.Unlock()
	return delayedID(h.envelope.ID, delay, "sent by", h.group, content, strconv.Itoa(n))
}

// Trace is what a message inherits when no other message brought it about.
type Trace struct {
	Parent string // W3C traceparent
	Tenant string
}

type traceKey struct{}

// WithTrace returns a context under which messages carry a trace and a tenant, as a web tier takes them from a request.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}
