package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace-go/millrace/internal/tracing"
	"github.com/millrace-go/millrace/internal/tracing/tracingtest"
	"github.com/millrace-go/millrace/internal/wire"
)

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func outbox() *wire.Outbox {
	return wire.NewOutbox(nil, func(k wire.Kind) ([]string, error) {
		switch k {
		case "unrouted":
			return nil, errors.New("no route")
		case "event":
			return []string{"mails", "stats"}, nil
		}
		return []string{"orders"}, nil
	})
}

func delivery(began time.Time) tracing.Delivery {
	return tracing.Delivery{Queue: "orders", Worker: "w1", Number: 1, Sent: began.Add(-3 * time.Second), Received: began.Add(-time.Second), Began: began}
}

// Without a provider there are no spans, and nothing is allocated. This is so for the global provider until one is set.
func TestNoProviderNoCost(t *testing.T) { // not parallel: it counts allocations and sets the global provider
	global := tracing.New(nil)
	use := func(tr *tracing.Tracer) tracing.Span {
		ctx, envelopes := t.Context(), []wire.Envelope{{ID: "1", Kind: "order", TraceParent: sampled}}
		o, d := outbox(), delivery(time.Now())
		var made tracing.Span
		allocs := testing.AllocsPerRun(100, func() {
			under, send := tr.Send(ctx, o, envelopes)
			process := tr.Process(&envelopes[0], d)
			under, call := tr.Call(tracing.Under(under, process), process, "decide")
			_, commit := tr.Commit(under, "stock", 1)
			for _, s := range []tracing.Span{commit, call, process, send} {
				tracing.End(s, nil)
			}
			made = process
		})
		if made == nil && (allocs > 0 || envelopes[0].TraceParent != sampled) {
			t.Errorf("got %v allocations and traceparent %s, want none and the one before", allocs, envelopes[0].TraceParent)
		}
		return made
	}
	for name, tr := range map[string]*tracing.Tracer{
		"not set": global, "noop": tracing.New(noop.NewTracerProvider()), "a pointer to noop": tracing.New(&noop.TracerProvider{}),
	} {
		if span := use(tr); span != nil {
			t.Errorf("%s: got a span", name)
		}
	}
	r := tracingtest.New(t)
	otel.SetTracerProvider(r.Provider)
	if span := use(global); span == nil || len(r.Named("process orders")) == 0 {
		t.Error("got no span of the global provider once it was set")
	}
}

func TestSpansOfASend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kinds           []wire.Kind
		span            string
		queue, id, many string
	}{
		"one message":         {[]wire.Kind{"order"}, "send orders", "orders", "0", ""},
		"several of a queue":  {[]wire.Kind{"order", "order"}, "send orders", "orders", "", "2"},
		"an event of two":     {[]wire.Kind{"event"}, "send", "", "0", ""},
		"a mixture":           {[]wire.Kind{"order", "event"}, "send", "", "", "2"},
		"a kind has no route": {[]wire.Kind{"unrouted"}, "send", "", "0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tracingtest.New(t)
			var envelopes []wire.Envelope
			for i, k := range c.kinds {
				envelopes = append(envelopes, wire.Envelope{ID: fmt.Sprint(i), Kind: k, TraceParent: sampled})
			}
			ctx, span := tracing.New(r.Provider).Send(t.Context(), outbox(), envelopes)
			tracing.End(span, nil)
			got := r.One(c.span)
			for key, want := range map[string]string{
				"messaging.system": "millrace", "messaging.operation.type": "send", "messaging.operation.name": "send",
				"messaging.destination.name": c.queue, "messaging.message.id": c.id, "messaging.batch.message_count": c.many,
			} {
				if got := tracingtest.Attribute(got, key); got != want {
					t.Errorf("%s: got %q, want %q", key, got, want)
				}
			}
			if got.SpanKind != trace.SpanKindProducer || got.Parent.SpanID().String() != "b7ad6b7169203331" {
				t.Errorf("got a %v below %v, want a producer below the traceparent", got.SpanKind, got.Parent.SpanID())
			}
			for _, e := range envelopes {
				if want := tracing.ParentIn(ctx); e.TraceParent != want || want == sampled {
					t.Errorf("got traceparent %s, want that of the span, %s", e.TraceParent, want)
				}
			}
		})
	}
}

// A trace that is not sampled makes no spans, and its traceparent says so to the next.
func TestAnUnsampledTraceStaysUnsampled(t *testing.T) {
	t.Parallel()
	r := tracingtest.New(t)
	tr := tracing.New(r.Provider)
	envelopes := []wire.Envelope{{ID: "1", Kind: "order", TraceParent: unsampled}}
	ctx, span := tr.Send(t.Context(), outbox(), envelopes)
	process := tr.Process(&envelopes[0], delivery(time.Now()))
	called, call := tr.Call(ctx, process, "decide stock")
	_, commit := tr.Commit(tracing.WithBatch(ctx, []tracing.Span{process}), "stock", 1)
	for _, s := range []tracing.Span{commit, call, process, span} {
		tracing.End(s, errors.New("failed"))
	}
	if all := r.Spans(); len(all) > 0 {
		t.Errorf("got the spans\n%s, want none", r.Tree())
	}
	for _, got := range []string{envelopes[0].TraceParent, tracing.ParentIn(called)} {
		if len(got) != len(unsampled) || got[:35] != unsampled[:35] || got[53:] != "00" {
			t.Errorf("got traceparent %s, want one of the same trace that is not sampled", got)
		}
	}
}

// Two machines' clocks differ. The wait in a queue is never negative, and it ends where the handling begins.
func TestTheWaitIsNotNegative(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 3, 1, 12, 0, 10, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return began.Add(-d) }
	for name, c := range map[string]struct {
		e    wire.Envelope
		sent time.Time
		want time.Time
	}{
		"sent":                       {wire.Envelope{Time: ago(5 * time.Second)}, ago(5 * time.Second), ago(5 * time.Second)},
		"whole seconds":              {wire.Envelope{Time: ago(4500 * time.Millisecond)}, ago(5 * time.Second), ago(4500 * time.Millisecond)},
		"made long before":           {wire.Envelope{Time: ago(time.Hour)}, ago(5 * time.Second), ago(5 * time.Second)},
		"the maker's clock is ahead": {wire.Envelope{Time: ago(-time.Hour)}, ago(5 * time.Second), ago(5 * time.Second)},
		"the store's clock is ahead": {wire.Envelope{Time: ago(5 * time.Second)}, ago(-time.Minute), began},
		"due":                        {wire.Envelope{Time: ago(time.Hour), Due: ago(time.Second)}, ago(time.Hour), ago(time.Second)},
		"no time at all":             {wire.Envelope{}, time.Time{}, began},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tracingtest.New(t)
			c.e.TraceParent = sampled
			tracing.End(tracing.New(r.Provider).Process(&c.e, tracing.Delivery{Queue: "orders", Sent: c.sent, Received: ago(time.Second / 2), Began: began}), nil)
			got := r.One("wait orders")
			if !got.StartTime.Equal(c.want) || !got.EndTime.Equal(began) || !r.One("process orders").StartTime.Equal(began) {
				t.Errorf("got a wait from %v to %v, want %v to %v", got.StartTime, got.EndTime, c.want, began)
			}
		})
	}
}

// A message without a valid traceparent begins a trace. Nothing can be drawn before it, so the wait has no span.
func TestAMessageWithoutATraceBeginsOne(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{"", "00-trace-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01", sampled + "-more"} {
		r := tracingtest.New(t)
		tracing.End(tracing.New(r.Provider).Process(&wire.Envelope{ID: "1", TraceParent: parent}, delivery(time.Now())), nil)
		if got := r.One("process orders"); len(r.Spans()) != 1 || got.Parent.IsValid() || len(got.Links) != 0 || !got.SpanContext.IsValid() {
			t.Errorf("traceparent %q: got %+v, want a trace of its own", parent, got)
		}
	}
}

// A message that comes again has another span below the same "send", and its wait is not known.
func TestADeliveryThatIsRepeated(t *testing.T) {
	t.Parallel()
	r := tracingtest.New(t)
	d := delivery(time.Now())
	d.Number = 3
	tracing.End(tracing.New(r.Provider).Process(&wire.Envelope{ID: "1", Correlation: "0", Kind: "order", Attempts: 2, TraceParent: sampled}, d), nil)
	got := r.One("process orders")
	for key, want := range map[string]string{
		"messaging.operation.type": "process", "messaging.message.id": "1", "messaging.message.conversation_id": "0", "messaging.client.id": "w1",
		"millrace.message.kind": "order", "millrace.delivery.number": "3", "millrace.delivery.failed": "2",
	} {
		if got := tracingtest.Attribute(got, key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if len(r.Spans()) != 1 || got.SpanKind != trace.SpanKindConsumer || len(got.Links) != 1 || got.Links[0].SpanContext.SpanID() != got.Parent.SpanID() {
		t.Errorf("got\n%s with links %v, want one consumer that is linked with its parent", r.Tree(), got.Links)
	}
}

// Messages that are folded together have one "commit". It is below the first that is sampled, and linked with the
// others.
func TestOneCommitOfManyMessages(t *testing.T) {
	t.Parallel()
	r := tracingtest.New(t)
	tr := tracing.New(r.Provider)
	var batch []tracing.Span
	for _, parent := range []string{unsampled, "", "", sampled} {
		batch = append(batch, tr.Process(&wire.Envelope{ID: "1", Attempts: 1, TraceParent: parent}, delivery(time.Now())))
	}
	_, commit := tr.Commit(tracing.WithBatch(context.Background(), batch), "stock", 4)
	tracing.End(commit, nil)
	for _, s := range batch {
		tracing.End(s, nil)
	}
	got, processes := r.One("commit stock"), r.Named("process orders")
	if len(processes) != 3 || got.Parent.SpanID() != processes[0].SpanContext.SpanID() || tracingtest.Attribute(got, "messaging.batch.message_count") != "4" {
		t.Fatalf("got\n%s, want the commit of 4 messages below the first that is sampled", r.Tree())
	}
	for i, p := range processes[1:] {
		back := slices.ContainsFunc(p.Links, func(l sdk.Link) bool { return l.SpanContext.SpanID() == got.SpanContext.SpanID() })
		if got.Links[i].SpanContext.SpanID() != p.SpanContext.SpanID() || !back {
			t.Errorf("got links %v of the commit and %v of message %d, want each to name the other", got.Links, p.Links, i+1)
		}
	}
}

type typed struct{ text string }

func (e typed) Error() string { return e.text }

// A span has the type of an error, and never its text.
func TestAFailureIsNamedByItsType(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"tracing_test.typed":  fmt.Errorf("a: %w", fmt.Errorf("b: %w", typed{"secret"})),
		"*fs.PathError":       &fs.PathError{Op: "open", Path: "secret", Err: errors.New("secret")},
		"*errors.errorString": errors.New("secret"),
		"*fmt.wrapErrors":     fmt.Errorf("%w: %w", errors.New("secret"), errors.New("secret")),
	} {
		r := tracingtest.New(t)
		_, span := r.Provider.Tracer("").Start(t.Context(), "failed")
		tracing.End(span, err)
		got := r.One("failed")
		if got.Status.Code != codes.Error || got.Status.Description != want || tracingtest.Attribute(got, "error.type") != want || len(got.Events) > 0 {
			t.Errorf("got status %+v, attributes %v and events %v, want the type %s alone", got.Status, got.Attributes, got.Events, want)
		}
	}
}
