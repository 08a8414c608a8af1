package tracing

import (
	"context"
	"reflect"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Span is a span of OpenTelemetry, or nil where no spans are made. This package's functions take nil.
type Span = trace.Span

const scope = "github.com/millrace-go/millrace"

// A Tracer makes spans as soon as there is a provider.
type Tracer struct {
	given trace.TracerProvider // nil: the global one
	idle  trace.TracerProvider // the global one of the beginning, if it makes no spans: it is asked about again and again
	found atomic.Pointer[trace.Tracer]
}

// New returns a tracer of a provider. For nil it takes the global one of package otel when that is set.
func New(given trace.TracerProvider) *Tracer {
	t := &Tracer{given: given}
	if p := otel.GetTracerProvider(); given == nil && isIdle(p) && reflect.TypeOf(p).Kind() == reflect.Pointer {
		t.idle = p
	}
	return t
}

// get returns nil if no spans are made.
func (t *Tracer) get() trace.Tracer {
	if found := t.found.Load(); found != nil {
		return *found
	}
	p := t.given
	if p == nil {
		if p = otel.GetTracerProvider(); p == t.idle {
			return nil
		}
	}
	if isIdle(p) {
		return nil
	}
	tracer := p.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	t.found.Store(&tracer)
	return tracer
}

// isIdle reports that a provider makes no spans: it is a noop one, or stands for the global one that is not set.
// OpenTelemetry has no call that tells this. To start its spans all the same would cost memory for each message.
func isIdle(p trace.TracerProvider) bool {
	t := reflect.TypeOf(p)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == reflect.TypeFor[noop.TracerProvider]() || t.PkgPath() == "go.opentelemetry.io/otel/internal/global"
}

// carrier is the traceparent of a message, for package propagation.
type carrier struct{ parent string }

const traceparent = "traceparent"

func (c *carrier) Keys() []string { return []string{traceparent} }

func (c *carrier) Get(key string) string {
	if key == traceparent {
		return c.parent
	}
	return ""
}

func (c *carrier) Set(key, value string) {
	if key == traceparent {
		c.parent = value
	}
}

// ParentIn returns the traceparent of the span of a context. It is empty if there is none.
func ParentIn(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return c.parent
}

// from returns a context with the span of a traceparent. One that is not valid changes nothing.
func from(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, &carrier{parent: parent})
}

// Under returns a context with a span, for what is called within it.
func Under(ctx context.Context, s Span) context.Context {
	if s == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s)
}
