package host

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// withSpans gives each request a span, below the traceparent that it brings. It follows the semantic conventions for
// HTTP, without the path of the request: that may be secret. The route stands for it. A stream of server-sent events
// has no span, because nobody could see the span before the stream ends.
func withSpans(p trace.TracerProvider, next http.Handler) http.Handler {
	tracer := p.Tracer("github.com/millrace-go/millrace/host", trace.WithSchemaURL(semconv.SchemaURL))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			next.ServeHTTP(w, r)
			return
		}
		method, name := r.Method, r.Method
		if !slices.Contains(methods(), method) { // anybody can make up any number of methods
			method, name = "_OTHER", "HTTP"
		}
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(semconv.HTTPRequestMethodKey.String(method)))
		defer span.End()
		r = r.WithContext(ctx)
		r.Pattern = "" // of the host
		answer := &answer{ResponseWriter: w, status: http.StatusOK}
		returned := false
		defer func() {
			if _, route, ok := strings.Cut(r.Pattern, "/"); ok {
				route = "/" + route
				span.SetName(name + " " + route)
				span.SetAttributes(semconv.HTTPRoute(route))
			}
			attrs := []attribute.KeyValue{semconv.HTTPResponseStatusCode(answer.status)}
			switch {
			case !returned:
				attrs = []attribute.KeyValue{semconv.ErrorTypeKey.String("panic")}
				span.SetStatus(codes.Error, "")
			case answer.status >= 500:
				attrs = append(attrs, semconv.ErrorTypeKey.String(strconv.Itoa(answer.status)))
				span.SetStatus(codes.Error, "")
			}
			span.SetAttributes(attrs...)
		}()
		next.ServeHTTP(answer, r)
		returned = true
	})
}

func methods() []string {
	return []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace,
	}
}

// answer remembers the status.
type answer struct {
	http.ResponseWriter
	status int
	begun  bool
}

func (a *answer) WriteHeader(status int) {
	if !a.begun && status >= 200 {
		a.status, a.begun = status, true
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush makes it an http.Flusher, which some handlers look for.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() } // as a Flusher can't tell

// Hijack makes it an http.Hijacker, likewise.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(a.ResponseWriter).Hijack()
}
