package wire

import (
	"cmp"
	"context"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"
)

// Handling is what a handler's context holds about the message that it handles.
type Handling struct {
	Envelope Envelope
	Queue    string // the subscriber group
	Channels any    // the *channel.Channels that the message came through, or nil

	Limit time.Duration // how long this run of the handler may take; 0: not known

	Deliveries int // how often the message was delivered, with this time; 0: nobody has counted

	work   Work
	doubts *atomic.Int32 // see Doubt; nil: nobody asks
	mu     sync.Mutex
	sent   map[string]int
}

type handlingKey struct{}

// WithHandling returns a context for handling a message that came from a queue (its subscriber group). Messages sent
// under it continue the message's chain. channels is the *channel.Channels that the message came through; it may be nil
// if the handler sends through channels of its own.
func WithHandling(ctx context.Context, e *Envelope, queue string, channels any) context.Context {
	return WithDelivery(ctx, e, queue, channels, 0, nil)
}

// WithDelivery is WithHandling for a message that was delivered so often. doubts counts what [Handling.Doubt] is told.
func WithDelivery(ctx context.Context, e *Envelope, queue string, channels any, deliveries int, doubts *atomic.Int32) context.Context {
	h := &Handling{Envelope: *e, Queue: queue, Channels: channels, Deliveries: deliveries, doubts: doubts}
	if end, ok := ctx.Deadline(); ok {
		h.Limit = time.Until(end)
	}
	return context.WithValue(ctx, handlingKey{}, h)
}

// Doubt tells that a call begins (1) or has ended (-1) whose effect may have happened if its handler never returns.
func (h *Handling) Doubt(by int32) {
	if h.doubts != nil {
		h.doubts.Add(by)
	}
}

// Work is what several messages ask for, one after the other, such as the attempts at a step of a process.
type Work struct {
	Key       string // of the work, the same in all of its messages
	Attempts  int    // that were made by earlier messages
	HandBacks int    // of earlier messages: they spent no attempt
}

// WithWork returns the context of a handler whose message is one of several that ask for the same work.
func WithWork(ctx context.Context, w Work) context.Context {
	h, ok := HandlingUnder(ctx)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, handlingKey{}, &Handling{Envelope: h.Envelope, Queue: h.Queue, Channels: h.Channels, Deliveries: h.Deliveries, doubts: h.doubts, work: w})
}

// Key returns what a repeat is recognised by: the key of the work, or else the message's ID.
func (h *Handling) Key() string { return cmp.Or(h.work.Key, h.Envelope.ID) }

// Attempts returns how many attempts at the work have failed.
func (h *Handling) Attempts() int { return h.work.Attempts + h.Envelope.Attempts }

// HandBacks returns how often the work was put off.
func (h *Handling) HandBacks() int { return h.work.HandBacks + h.Envelope.HandBacks }

// Again reports that a handler may have had the work before.
func (h *Handling) Again() bool { return h.Deliveries > 1 || h.work.Attempts+h.work.HandBacks > 0 }

type mostKey struct{}

// WithMostAttempts returns a context for handling messages that have so many attempts at most.
func WithMostAttempts(ctx context.Context, most int) context.Context {
	return context.WithValue(ctx, mostKey{}, most)
}

// MostAttempts returns what [WithMostAttempts] has set, or 0.
func MostAttempts(ctx context.Context) int {
	most, _ := ctx.Value(mostKey{}).(int)
	return most
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
