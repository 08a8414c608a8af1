package worker

import (
	"time"

	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/tracing"
)

// beginSpan begins the span of a delivery, if spans are made.
func (m *message) beginSpan(with *setup, now time.Time) {
	span := with.registry.Channels.Tracer().Process(&m.envelope, tracing.Delivery{
		Queue: m.queue, Worker: with.all.Name, Number: m.deliveries, Sent: m.sentAt, Received: m.received, Began: now,
	})
	if span == nil {
		return
	}
	own := span // a variable of its own, so that nothing is allocated without a span
	m.span.Store(&own)
	if m.delivery != nil {
		m.delivery.TraceTo(span)
	}
}

// tracedBy returns the span of the delivery, or nil.
func (m *message) tracedBy() tracing.Span {
	if span := m.span.Load(); span != nil {
		return *span
	}
	return nil
}

// judged notes the verdict in the span.
func (m *message) judged(v verdict.Verdict) {
	if v.Action == verdict.HandBack {
		tracing.HandBack(m.tracedBy())
		return
	}
	tracing.Fail(m.tracedBy(), v.Err)
}

// endSpan ends the span. To end it again does nothing.
func (m *message) endSpan() { tracing.End(m.tracedBy(), nil) }
