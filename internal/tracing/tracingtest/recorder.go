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
	var all []node
	for _, s := range r.Spans() {
		id, parent := s.SpanContext.SpanID(), s.Parent.SpanID()
		all = append(all, node{name: s.Name, id: string(id[:]), parent: string(parent[:])})
	}
	return draw(all)
}

// node is a span in a tree.
type node struct{ name, id, parent string }

func draw(all []node) string {
	known, below := map[string]bool{}, map[string][]node{}
	for _, n := range all {
		known[n.id] = true
	}
	for _, n := range all {
		if !known[n.parent] {
			n.parent = ""
		}
		below[n.parent] = append(below[n.parent], n)
	}
	var b strings.Builder
	var drawBelow func(id, indent string)
	drawBelow = func(id, indent string) {
		slices.SortStableFunc(below[id], func(x, y node) int { return cmp.Compare(x.name, y.name) })
		for _, n := range below[id] {
			b.WriteString(indent + n.name + "\n")
			drawBelow(n.id, indent+"  ")
		}
	}
	drawBelow("", "")
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
