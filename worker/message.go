package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/tracing"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// These errors say why a handler's context ended, by context.Cause.
var (
	ErrOwnershipLost = errors.New("worker: the message may be in other hands")
	ErrDraining      = errors.New("worker: stopping, and the time to finish is over")
)

// isStale reports that another worker has a message, or has ended it.
func isStale(err error) bool { return errors.Is(err, storage.ErrReceiptStale) }

// message is a message in hand.
type message struct {
	queue            string
	body             []byte           // as received
	envelope         channel.Envelope // has its data once that is fetched
	opened           atomic.Bool      // the envelope is decoded, and its ID may be read by all
	silentDeliveries int              // deliveries that ended without a report
	bad              error            // the fault found while it was decoded and resolved
	doomed           error            // why it is poisoned, once it is the only suspect
	entry            *poison.Entry    // in the poison queue, of a worker that didn't come to the message's end
	delivery         *handling.Delivery
	deliveries       int
	early            bool // it is not due yet
	sentAt           time.Time
	asked            time.Time // when the call that received it began
	received         time.Time
	began            atomic.Pointer[time.Time]    // when its handler started; nil: not yet
	reported         time.Time                    // when it was last reported as stuck
	suspect          bool                         // see suspects
	lower            bool                         // it may not take a handler of the Reserve
	bodyBytes        int                          // its share of the bodyRoom, under its mutex
	written          *channel.Envelope            // see history
	span             atomic.Pointer[tracing.Span] // of the delivery; nil: none, or it hasn't begun

	claim claim // whose the message is
}

// discardForgedHistory discards a history that these deliveries can't have. Another program wrote it, and it would
// let the message come back for ever.
func (m *message) discardForgedHistory() {
	e := &m.envelope
	if before := m.deliveries - 1; e.Attempts > before || e.HandBacks > before-e.Attempts || e.Hops > before-e.Attempts-e.HandBacks || e.Hangs > e.Attempts {
		e.Attempts, e.Hangs, e.HandBacks, e.Hops = 0, 0, 0, 0
	}
	if e.FirstFailed.After(m.received) {
		e.FirstFailed = time.Time{}
	}
}

// history returns the envelope in which the caller notes the end of the delivery. It is a copy: a handler that was
// given up may still read the envelope.
func (m *message) history() *channel.Envelope {
	if m.written == nil {
		e := m.envelope
		m.written = &e
	}
	return m.written
}

// unknownFor reports that the message's kind has been unknown here for longer than most.
func (m *message) unknownFor(most time.Duration) bool {
	first := m.envelope.FirstFailed
	return !first.IsZero() && m.received.Sub(first) > most
}

// id names the message in a log, by nothing until it is decoded.
func (m *message) id() slog.Attr {
	if !m.opened.Load() {
		return slog.Attr{}
	}
	return slog.String("id", m.envelope.ID)
}

// attrs name a message, and its handler where that is known.
func (m *message) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("id", m.envelope.ID), slog.String("kind", string(m.envelope.Kind))}
	if m.delivery != nil {
		attrs = append(attrs, slog.String("handler", m.delivery.Handler.Name()))
	}
	return attrs
}

// trace logs, at the debug level, that a message comes into hand or leaves it. So a log shows what a worker had in hand
// when it died.
func (m *message) trace(ctx context.Context, log *slog.Logger, event string) {
	if !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	log.LogAttrs(ctx, slog.LevelDebug, event, slog.String("id", m.envelope.ID), slog.Int("deliveries", m.deliveries),
		slog.Time("sent", m.sentAt), slog.Time("made", m.envelope.Time))
}
