package tracing

import (
	"context"
	"reflect"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/internal/wire"
)

// These attributes are the framework's own.
const (
	attrKind     = attribute.Key("millrace.message.kind")
	attrDelivery = attribute.Key("millrace.delivery.number") // counts the deliveries of a message from 1
	attrAttempts = attribute.Key("millrace.delivery.failed") // attempts that have failed before
	attrOutcome  = attribute.Key("millrace.outcome")         // of a delivery or a commit that is not just done or failed
	attrReason   = attribute.Key("millrace.poison.reason")
)

func system() attribute.KeyValue { return semconv.MessagingSystemKey.String("millrace") }

// Send starts the span of sending envelopes, and makes it their parent. It goes on with the span of the context, or
// else with the traceparent that they have.
func (t *Tracer) Send(ctx context.Context, outbox *wire.Outbox, envelopes []wire.Envelope) (context.Context, Span) {
	tracer := t.get()
	if tracer == nil || len(envelopes) == 0 {
		return ctx, nil
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = from(ctx, envelopes[0].TraceParent)
	}
	name := "send"
	attrs := []attribute.KeyValue{system(), semconv.MessagingOperationTypeSend, semconv.MessagingOperationName(name)}
	if queue, one := outbox.QueueOf(envelopes); one {
		name += " " + queue
		attrs = append(attrs, semconv.MessagingDestinationName(queue))
	}
	ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attrs...))
	if parent := ParentIn(ctx); parent != "" {
		for i := range envelopes {
			envelopes[i].TraceParent = parent
		}
	}
	switch {
	case !span.IsRecording():
	case len(envelopes) == 1:
		span.SetAttributes(about(&envelopes[0])...)
	default:
		span.SetAttributes(semconv.MessagingBatchMessageCount(len(envelopes)))
	}
	return ctx, span
}

// about describes a message.
func about(e *wire.Envelope) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	if e.ID != "" { // it is decodable
		attrs = append(attrs, semconv.MessagingMessageID(e.ID), attrKind.String(string(e.Kind)))
	}
	if e.Correlation != "" {
		attrs = append(attrs, semconv.MessagingMessageConversationID(e.Correlation))
	}
	return attrs
}

// A Delivery is what a worker knows of a message that it begins to handle.
type Delivery struct {
	Queue, Worker string
	Number        int // how often the message was delivered, with this time
	Sent          time.Time
	Received      time.Time
	Began         time.Time
}

// Process starts the span of a delivery. It makes the span of the wait before it, too.
func (t *Tracer) Process(e *wire.Envelope, d Delivery) Span {
	tracer := t.get()
	if tracer == nil {
		return nil
	}
	ctx := from(context.Background(), e.TraceParent)
	to := semconv.MessagingDestinationName(d.Queue)
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(d.Began),
		trace.WithAttributes(system(), semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName("process"), to),
	}
	parent := trace.SpanContextFromContext(ctx)
	if parent.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: parent}))
	}
	_, span := tracer.Start(ctx, "process "+d.Queue, options...)
	if !span.IsRecording() {
		return span
	}
	span.SetAttributes(about(e)...)
	span.SetAttributes(semconv.MessagingClientID(d.Worker), attrDelivery.Int(d.Number), attrAttempts.Int(e.Attempts))
	if parent.IsValid() && e.Attempts == 0 && e.HandBacks == 0 { // else the time of the last delivery is not known
		since := d.waitsSince(e)
		_, wait := tracer.Start(ctx, "wait "+d.Queue, trace.WithTimestamp(since), trace.WithAttributes(system(), to))
		if d.Received.After(since) {
			wait.AddEvent("received", trace.WithTimestamp(d.Received))
		}
		wait.End(trace.WithTimestamp(d.Began))
	}
	return span
}

// waitsSince returns when the message began to wait. Two clocks may differ, so it is not after the handling begins.
func (d Delivery) waitsSince(e *wire.Envelope) time.Time {
	since := d.Sent
	if e.Time.After(since) && e.Time.Sub(since) < time.Second { // a store may keep whole seconds
		since = e.Time
	}
	if e.Due.After(since) {
		since = e.Due
	}
	if since.IsZero() || since.After(d.Began) {
		return d.Began
	}
	return since
}

// Call starts the span of a call of the user's code, below the span of its delivery. Without that there is none.
func (t *Tracer) Call(ctx context.Context, delivery Span, name string) (context.Context, Span) {
	if delivery == nil {
		return ctx, nil
	}
	tracer := t.get()
	if tracer == nil {
		return ctx, nil
	}
	return tracer.Start(trace.ContextWithSpan(ctx, delivery), name)
}

type batchKey struct{}

// WithBatch returns a context for the unit of work of some deliveries.
func WithBatch(ctx context.Context, deliveries []Span) context.Context {
	return context.WithValue(ctx, batchKey{}, deliveries)
}

// Commit starts the span of a unit of work on a collection, that ends so many messages. Without a batch there is none.
func (t *Tracer) Commit(ctx context.Context, collection string, messages int) (context.Context, Span) {
	tracer := t.get()
	if tracer == nil {
		return ctx, nil
	}
	batch, _ := ctx.Value(batchKey{}).([]Span)
	var sampled []Span
	for _, s := range batch {
		if s != nil && s.IsRecording() {
			sampled = append(sampled, s)
		}
	}
	if len(sampled) == 0 {
		return ctx, nil
	}
	options := []trace.SpanStartOption{trace.WithAttributes(system())}
	if messages > 1 {
		options = append(options, trace.WithAttributes(semconv.MessagingBatchMessageCount(messages)))
	}
	for _, s := range sampled[1:] {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: s.SpanContext()}))
	}
	ctx, span := tracer.Start(trace.ContextWithSpan(ctx, sampled[0]), "commit "+collection, options...)
	for _, s := range sampled[1:] {
		s.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return ctx, span
}

// End ends a span. The error makes it a failed one.
func End(s Span, err error) {
	if s != nil {
		Fail(s, err)
		s.End()
	}
}

// Fail notes an error by its type.
func Fail(s Span, err error) {
	if s == nil || err == nil || !s.IsRecording() {
		return
	}
	t := TypeOf(err)
	s.SetAttributes(semconv.ErrorTypeKey.String(t))
	s.SetStatus(codes.Error, t)
}

// HandBack notes that a message is handed back for no fault of its own.
func HandBack(s Span) {
	if s != nil {
		s.SetAttributes(attrOutcome.String("handed back"))
	}
}

// LoseRace notes that somebody else wrote first.
func LoseRace(s Span) {
	if s != nil {
		s.SetAttributes(attrOutcome.String("lost race"))
	}
}

// Poison notes that a message went to the poison queue.
func Poison(s Span, reason string) {
	if s != nil {
		s.SetAttributes(attrOutcome.String("poison"), attrReason.String(reason))
	}
}

// TypeOf names the type of an error, or of the first error within it that is more than a text around another one. It
// calls no method of the user's errors but ErrorType.
func TypeOf(err error) string {
	for {
		if typed, ok := err.(interface{ ErrorType() string }); ok {
			return typed.ErrorType()
		}
		name := reflect.TypeOf(err).String()
		wrapper, ok := err.(interface{ Unwrap() error })
		if name != "*fmt.wrapError" || !ok || wrapper.Unwrap() == nil {
			return name
		}
		err = wrapper.Unwrap()
	}
}
