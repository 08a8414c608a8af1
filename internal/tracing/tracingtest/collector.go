package tracingtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A Collector takes spans over OTLP, as binary protobuf by HTTP.
type Collector struct {
	URL string // of its endpoint, without a path

	mu       sync.Mutex
	spans    []*otlp.Span
	services map[string]bool // the names of the programs
}

// NewCollector starts a collector, which ends with the test.
func NewCollector(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{services: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = c.take(body)
		}
		if err != nil {
			t.Errorf("collector: %v", err)
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) take(body []byte) error {
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range request.ResourceSpans {
		for _, a := range r.Resource.Attributes {
			if a.Key == "service.name" {
				c.services[a.Value.GetStringValue()] = true
			}
		}
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
	return nil
}

// Spans returns the spans so far.
func (c *Collector) Spans() []*otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*otlp.Span(nil), c.spans...)
}

// IsFrom reports that all spans so far are from the program of this name.
func (c *Collector) IsFrom(service string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.services) == 1 && c.services[service]
}

// Tree draws the spans of the trace that the span of a name belongs to, as [Recorder.Tree] does.
func (c *Collector) Tree(of string) string {
	var all []node
	trace := ""
	for _, s := range c.Spans() {
		if s.Name == of {
			trace = string(s.TraceId)
		}
	}
	for _, s := range c.Spans() {
		if string(s.TraceId) == trace {
			all = append(all, node{name: s.Name, id: string(s.SpanId), parent: string(s.ParentSpanId)})
		}
	}
	return draw(all)
}
