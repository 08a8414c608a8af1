package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"sync"
	"time"
)

// handling is what a handler's context tells about the message it handles.
type handling struct {
	envelope Envelope
	group    string

	mu   sync.Mutex
	sent map[string]int // how often this very content was sent while handling, with this very delay
}

type handlingKey struct{}

// Handling returns a context for handling a message that came from a queue (its subscriber group): what is
// sent under it continues the message's chain.
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

// HandledContent returns a digest of the kind and data of the message that is being handled: whether a message with
// the same ID is the same message. It is empty outside of handling.
func HandledContent(ctx context.Context) string {
	h, ok := ctx.Value(handlingKey{}).(*handling)
	if !ok {
		return ""
	}
	sum := h.envelope.Content()
	return hex.EncodeToString(sum[:12])
}

// childID derives the ID of a message sent while handling another. It depends on the content and the delay, not on
// the order of sends, so that handlers may send from several goroutines. Its time is that of the handled message and
// the delay, so that a chain of delayed messages doesn't grow old.
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

// Trace is what a message inherits where there is no message before it.
type Trace struct {
	Parent string // W3C traceparent
	Tenant string
}

type traceKey struct{}

// WithTrace returns a context under which messages carry the trace and tenant given, as a web tier takes
// them from a request.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}
