package post

import (
	"context"
	"encoding/hex"
	"sync"
)

// Handling is what a handler's context holds about the message that it handles.
type Handling struct {
	Envelope Envelope
	Queue    string // the subscriber group

	mu   sync.Mutex
	sent map[string]int
}

type handlingKey struct{}

// WithHandling returns a context for handling a message that came from a queue (its subscriber group). Messages sent
// under it continue the message's chain.
func WithHandling(ctx context.Context, e *Envelope, queue string) context.Context {
	return context.WithValue(ctx, handlingKey{}, &Handling{Envelope: *e, Queue: queue})
}

// HandlingUnder returns what is handled under a context. It is false outside of a handler.
func HandlingUnder(ctx context.Context) (*Handling, bool) {
	h, ok := ctx.Value(handlingKey{}).(*Handling)
	return h, ok
}

// CountSent counts a message that is sent while handling. It returns how many of the same content were sent before.
func (h *Handling) CountSent(content string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sent == nil {
		h.sent = map[string]int{}
	}
	n := h.sent[content]
	h.sent[content]++
	return n
}

// HandledContent returns a digest of the kind and data of the message that is being handled. It tells whether a message
// with the same ID is the same message. It is empty outside of handling.
func HandledContent(ctx context.Context) string {
	h, ok := HandlingUnder(ctx)
	if !ok {
		return ""
	}
	sum := h.Envelope.Content()
	return hex.EncodeToString(sum[:12])
}
