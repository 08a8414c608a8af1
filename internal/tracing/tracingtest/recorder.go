// Package tracingtest records spans for tests, and draws them as a tree.
package tracingtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// A Recorder keeps the spans that have ended.
type Recorder struct {
	Provider *sdk.TracerProvider

	t        testing.TB
	exporter *tracetest.InMemoryExporter
	open     atomic.Int64
}

// New returns a recorder with its provider.
func New(t testing.TB, options ...sdk.TracerProviderOption) *Recorder {
	r := &Recorder{t: t, exporter: tracetest.NewInMemoryExporter()}
	r.Provider = sdk.NewTracerProvider(append(options, sdk.WithSyncer(r.exporter), sdk.WithSpanProcessor(counter{&r.open}))...)
	return r
}

// Open returns how many spans have begun and not ended.
func (r *Recorder) Open() int { return int(r.open.Load()) }

type counter struct{ open *atomic.Int64 }

func (c counter) OnStart(context.Context, sdk.ReadWriteSpan) { c.open.Add(1) }
func (c counter) OnEnd(sdk.ReadOnlySpan)                     { c.open.Add(-1) }
func (counter) Shutdown(context.Context) error               { return nil }
func (counter) ForceFlush(context.Context) error             { return nil }

// Spans returns the spans so far, in the order in which they ended.
func (r *Recorder) Spans() []tracetest.SpanStub { return r.exporter.GetSpans() }

// Named returns the spans of a name.
func (r *Recorder) Named(name string) []tracetest.SpanStub {
	return slices.DeleteFunc(r.Spans(), func(s tracetest.SpanStub) bool { return s.Name != name })
}

// One returns the one span of a name.
func (r *Recorder) One(name string) tracetest.SpanStub {
	r.t.Helper()
	all := r.Named(name)
	if len(all) != 1 {
		r.t.Fatalf("got %d spans %q, want 1; all:\n%s", len(all), name, r.Tree())
	}
	return all[0]
}

// Tree draws the spans: each below its parent, and those of one parent by name. A parent that is not here is no parent.
func (r *Recorder) Tree() string {
	known := map[trace.SpanID]bool{}
	below := map[trace.SpanID][]tracetest.SpanStub{}
	all := r.Spans()
	for _, s := range all {
		known[s.SpanContext.SpanID()] = true
	}
	for _, s := range all {
		parent := s.Parent.SpanID()
		if !known[parent] {
			parent = trace.SpanID{}
		}
		below[parent] = append(below[parent], s)
	}
	var b strings.Builder
	var draw func(of trace.SpanID, indent string)
	draw = func(of trace.SpanID, indent string) {
		slices.SortFunc(below[of], func(x, y tracetest.SpanStub) int {
			return cmp.Or(cmp.Compare(x.Name, y.Name), x.StartTime.Compare(y.StartTime))
		})
		for _, s := range below[of] {
			b.WriteString(indent + s.Name + "\n")
			draw(s.SpanContext.SpanID(), indent+"  ")
		}
	}
	draw(trace.SpanID{}, "")
	return b.String()
}

// Attribute returns the value of an attribute as text, or "" where the span doesn't have it.
func Attribute(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}
