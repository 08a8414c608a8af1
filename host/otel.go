package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// flushTime is how long a stop waits for the last spans to be sent.
const flushTime = 3 * time.Second

// openTraces has the program's spans sent to where the environment says. Without that there are none. No fault of it is
// a fault of the program.
func (s *service) openTraces(ctx context.Context, a *App) {
	endpoint, err := tracesEndpoint(s.process.Getenv)
	if err == nil && endpoint == "" {
		return
	}
	var sender sdk.SpanExporter
	if err == nil {
		sender, err = otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: 10 * time.Second,
		}))
	}
	if err != nil {
		a.Log.WarnContext(ctx, "traces are off", "error", err)
		return
	}
	e := &exporter{SpanExporter: sender, endpoint: endpoint, log: a.Log}
	a.traces = sdk.NewTracerProvider(sdk.WithBatcher(e), sdk.WithResource(s.resource(ctx, a.Log)))
	a.OnClose(func() error {
		e.flush(a.traces)
		return nil
	})
	a.Channels = a.Channels.TraceWith(a.traces)
	if s.process.ours {
		otel.SetTracerProvider(a.traces)
		otel.SetTextMapPropagator(propagation.TraceContext{})
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { a.Log.Warn("OpenTelemetry has a fault", "error", err) }))
	}
}

// resource describes the program in its traces. The environment goes before what the program says.
func (s *service) resource(ctx context.Context, log *slog.Logger) *resource.Resource {
	options := []resource.Option{
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(s.Name), semconv.ServiceVersion(s.version())),
		resource.WithFromEnv(),
	}
	if name := s.process.Getenv("OTEL_SERVICE_NAME"); name != "" {
		options = append(options, resource.WithAttributes(semconv.ServiceName(name)))
	}
	r, err := resource.New(ctx, options...)
	if err != nil {
		log.WarnContext(ctx, "the environment describes this program wrongly for traces: see OTEL_RESOURCE_ATTRIBUTES", "error", err)
	}
	return r
}

// tracesEndpoint reads the environment. It returns where spans go; nowhere is "". An error shows no value, because a
// URL may be secret.
func tracesEndpoint(getenv func(string) string) (string, error) {
	get := func(name string) string { return strings.TrimSpace(getenv(name)) } // as for the flags
	exporter := get("OTEL_TRACES_EXPORTER")
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || exporter == "none" {
		return "", nil
	}
	endpoint, base := get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), get("OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" && base != "" {
		endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	switch exporter {
	case "otlp":
		endpoint = cmp.Or(endpoint, "http://localhost:4318/v1/traces")
	case "":
	default:
		return "", errors.New("OTEL_TRACES_EXPORTER: this program knows otlp and none")
	}
	if endpoint == "" {
		return "", nil
	}
	switch cmp.Or(get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), get("OTEL_EXPORTER_OTLP_PROTOCOL")) {
	case "", "http/protobuf", "http/json":
	default:
		return "", errors.New("OTEL_EXPORTER_OTLP_PROTOCOL: this program sends over HTTP; use http/protobuf, and the collector's endpoint for HTTP, which often has port 4318")
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: want http://HOST:PORT or https://HOST:PORT")
	}
	return endpoint, nil
}

// exporter sends spans. It logs seldom that they can't be sent, and keeps the error to itself.
type exporter struct {
	sdk.SpanExporter
	endpoint string
	log      *slog.Logger
	failed   atomic.Int64 // exports in a row
}

// ExportSpans is called by one goroutine at a time.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		if n := e.failed.Swap(0); n > 0 {
			e.log.InfoContext(ctx, "spans can be sent again", "failed", n)
		}
		return nil
	}
	if n := e.failed.Add(1); n&(n-1) == 0 { // the first time, and each time the number has doubled
		host, cause := withoutURL(e.endpoint, err)
		e.log.WarnContext(ctx, "spans can't be sent, and are lost", "spans", len(spans), "failed", n, "host", host, "error", cause)
	}
	return nil
}

// withoutURL returns the host of the endpoint and the cause of an error. The rest of the endpoint's URL may be secret,
// and a collector may repeat parts of it in its answer. A part of one or two bytes is no secret.
func withoutURL(endpoint string, err error) (host, cause string) {
	u, fault := url.Parse(endpoint)
	if fault != nil {
		return "", "the endpoint is no URL"
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	short := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path} // as the exporter names it
	cause = strings.NewReplacer(endpoint, "the endpoint", short.String(), "the endpoint").Replace(err.Error())
	parts := []string{u.Path, u.EscapedPath(), u.RawQuery, u.User.String(), u.User.Username()}
	if password, ok := u.User.Password(); ok {
		parts = append(parts, password)
	}
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	parts = append(parts, strings.Split(u.Path+"/"+u.EscapedPath(), "/")...)
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // the whole before its parts
	for _, p := range parts {
		if len(p) > 2 && p != "traces" {
			cause = strings.ReplaceAll(cause, p, "…")
		}
	}
	return u.Host, cause
}

// flush sends the last spans, and ends the exporter. It doesn't wait for a collector that has failed before.
func (e *exporter) flush(p *sdk.TracerProvider) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if e.failed.Load() > 0 {
		cancel()
	}
	if err := p.Shutdown(ctx); err != nil {
		e.log.WarnContext(ctx, "the last spans are lost", "error", err)
	}
	_ = e.SpanExporter.Shutdown(ctx) // ends a request that nobody waits for
}
