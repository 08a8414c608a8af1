package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/internal/tracing/tracingtest"
)

// The standard environment variables say whether spans are sent, and where. An error advises, and shows no value.
func TestTheEnvironmentSaysWhereSpansGo(t *testing.T) {
	t.Parallel()
	type env = map[string]string
	for name, c := range map[string]struct {
		env       env
		want, err string
	}{
		"nothing":           {},
		"a collector":       {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, want: "http://c:4318/v1/traces"},
		"a line break":      {env: env{"OTEL_TRACES_EXPORTER": "otlp\n", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318\n"}, want: "http://c:4318/v1/traces"},
		"below a path":      {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/otlp/"}, want: "https://c/otlp/v1/traces"},
		"for traces":        {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://d/x"}, want: "http://d/x"},
		"the default":       {env: env{"OTEL_TRACES_EXPORTER": "otlp"}, want: "http://localhost:4318/v1/traces"},
		"no exporter":       {env: env{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}},
		"disabled":          {env: env{"OTEL_SDK_DISABLED": "True", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}},
		"not disabled":      {env: env{"OTEL_SDK_DISABLED": "false", "OTEL_TRACES_EXPORTER": "otlp"}, want: "http://localhost:4318/v1/traces"},
		"other variables":   {env: env{"OTEL_SERVICE_NAME": "shop", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}},
		"another exporter":  {env: env{"OTEL_TRACES_EXPORTER": "secret"}, err: "knows otlp and none"},
		"another protocol":  {env: env{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, err: "use http/protobuf"},
		"its own protocol":  {env: env{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, want: "http://localhost:4318/v1/traces"},
		"no scheme":         {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "secret:4318"}, err: "want http://HOST:PORT"},
		"no host":           {env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http:///secret"}, err: "want http://HOST:PORT"},
		"not an URL at all": {env: env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://secret\x7f"}, err: "want http://HOST:PORT"},
	} {
		got, err := tracesEndpoint(func(key string) string { return c.env[key] })
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != c.want || (err != nil) != (c.err != "") || !strings.Contains(text, c.err) || strings.Contains(text, "secret") {
			t.Errorf("%s: got %q and error %q, want %q and %q", name, got, text, c.want, c.err)
		}
	}
}

// brokenExporter fails as long as fails is set.
type brokenExporter struct{ fails bool }

func (b *brokenExporter) ExportSpans(context.Context, []sdk.ReadOnlySpan) error {
	if b.fails {
		return errors.New(`Post "http://collector/secret": refused`)
	}
	return nil
}
func (*brokenExporter) Shutdown(context.Context) error { return nil }

// A collector that doesn't answer is logged seldom, and so is its return. OpenTelemetry gets no error to log itself.
func TestAFailingCollectorIsLoggedSeldom(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	inner := &brokenExporter{fails: true}
	e := &exporter{SpanExporter: inner, endpoint: "http://collector/secret", log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 100 {
		if err := e.ExportSpans(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	inner.fails = false
	for range 2 {
		if err := e.ExportSpans(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(log.String(), "\n"); got != 8 || !strings.Contains(log.String(), "can be sent again") || strings.Contains(log.String(), "secret") {
		t.Errorf("got %d lines, want 7 for 100 failures and one for the end, without the endpoint's path:\n%s", got, &log)
	}
}

// No part of the endpoint but its host is logged, whatever the exporter's error or the collector's answer holds.
func TestOnlyTheEndpointsHostIsLogged(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "nothing at "+r.URL.Path+", my-key", http.StatusNotFound)
	}))
	defer refusing.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, c := range map[string]struct{ base, want string }{
		"an answer":    {refusing.URL, "404 Not Found"},
		"no collector": {gone.URL, "connection refused"},
	} {
		host := strings.TrimPrefix(c.base, "http://")
		endpoint := "http://my-user:my-word@" + host + "/my-path%20x/v1/traces?key=my-key"
		sender, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(endpoint), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		e := &exporter{SpanExporter: sender, endpoint: endpoint, log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := e.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "x"}}.Snapshots()); err != nil {
			t.Fatal(err)
		}
		if got := log.String(); !strings.Contains(got, "host="+host) || !strings.Contains(got, c.want) || strings.Contains(got, "my-") || strings.Contains(got, "/v1/traces") {
			t.Errorf("%s: got %s", name, got)
		}
	}
	const endpoint = "http://my-user:my-word@c:1/my-path%20x/v1/traces?key=my-key"
	for _, text := range []string{endpoint, "at my-path x", "my-path%20x", "at /my-path%20x/v1/traces", "?key=my-key", "my-user and my-word", "my-user:my-word"} {
		for _, err := range []error{errors.New(text), &url.Error{Op: "Post", URL: endpoint, Err: errors.New(text)}} {
			if host, got := withoutURL(endpoint, fmt.Errorf("wrapped: %w", err)); host != "c:1" || strings.Contains(got, "my-") {
				t.Errorf("%s: got %q", text, got)
			}
		}
	}
}

// Each request has a span, named by its method and route, below the caller's span. It never tells the path.
func TestSpansOfRequests(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /receipts/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("yes")) })
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("GET /early", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot) // superfluous
	})
	mux.HandleFunc("GET /panic", func(http.ResponseWriter, *http.Request) { panic("secret") })
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for _, c := range []struct {
		method, path, sampled, accept string
		name, route, status, failed   string
	}{
		{method: "GET", path: "/receipts/secret", sampled: "1", name: "GET /receipts/{id}", route: "/receipts/{id}", status: "200"},
		{method: "HEAD", path: "/receipts/secret", sampled: "1", name: "HEAD /receipts/{id}", route: "/receipts/{id}", status: "200"},
		{method: "POST", path: "/orders?secret", sampled: "1", name: "POST /orders", route: "/orders", status: "503", failed: "503"},
		{method: "GET", path: "/early", sampled: "1", name: "GET /early", route: "/early", status: "202"},
		{method: "GET", path: "/panic", sampled: "1", name: "GET /panic", route: "/panic", failed: "panic"},
		{method: "GET", path: "/secret", sampled: "1", name: "GET", status: "404"},
		{method: "SECRET", path: "/secret", sampled: "1", name: "HTTP", status: "404"},
		{method: "GET", path: "/receipts/secret", sampled: "0"},
		{method: "GET", path: "/receipts/secret", sampled: "1", accept: "text/event-stream"},
	} {
		r := tracingtest.New(t)
		request := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
		request.Pattern = "/" // of the mux around it
		request.Header.Set("Traceparent", parent+c.sampled)
		request.Header.Set("Accept", c.accept)
		func() {
			defer func() { _ = recover() }()
			withSpans(r.Provider, mux).ServeHTTP(httptest.NewRecorder(), request)
		}()
		if c.name == "" {
			if len(r.Spans()) > 0 || r.Open() > 0 {
				t.Errorf("%+v: got the spans\n%s, want none", c, r.Tree())
			}
			continue
		}
		got := r.One(c.name)
		for key, want := range map[string]string{"http.route": c.route, "http.response.status_code": c.status, "error.type": c.failed, "url.path": ""} {
			if got := tracingtest.Attribute(got, key); got != want {
				t.Errorf("%s: %s is %q, want %q", c.name, key, got, want)
			}
		}
		if got.SpanKind != trace.SpanKindServer || got.Parent.SpanID().String() != "b7ad6b7169203331" || (got.Status.Code == codes.Error) != (c.failed != "") {
			t.Errorf("%s: got %v below %s with %+v", c.name, got.SpanKind, got.Parent.SpanID(), got.Status)
		}
	}
}

// A handler can stream and take the connection over, as without spans.
func TestRequestsWithSpansStreamAndHijack(t *testing.T) {
	t.Parallel()
	r := tracingtest.New(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("first"))
		w.(http.Flusher).Flush()
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("GET /hijack", func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
		_ = c.Close()
	})
	server := httptest.NewServer(withSpans(r.Provider, mux))
	defer server.Close()
	for _, path := range []string{"/stream", "/hijack"} {
		res, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d, want 200", path, res.StatusCode)
		}
	}
}
