package tracing_test

import (
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace-go/millrace/internal/tracing"
	"github.com/millrace-go/millrace/internal/wire"
)

// BenchmarkSpans measures all spans of one message that is sent, decided and committed, beside the work itself.
func BenchmarkSpans(b *testing.B) {
	for name, provider := range map[string]trace.TracerProvider{
		"no provider": noop.NewTracerProvider(),
		"not sampled": sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())),
		"sampled":     sdk.NewTracerProvider(),
	} {
		b.Run(name, func(b *testing.B) {
			tr, o, envelopes, d := tracing.New(provider), outbox(), []wire.Envelope{{ID: "1", Kind: "order"}}, delivery(time.Now())
			ctx, batch := b.Context(), make([]tracing.Span, 1)
			b.ReportAllocs()
			for b.Loop() {
				_, send := tr.Send(ctx, o, envelopes)
				batch[0] = tr.Process(&envelopes[0], d)
				_, call := tr.Call(ctx, batch[0], "decide stock")
				under := ctx
				if batch[0] != nil {
					under = tracing.WithBatch(ctx, batch)
				}
				_, commit := tr.Commit(under, "stock", 1)
				for _, s := range []tracing.Span{commit, call, batch[0], send} {
					tracing.End(s, nil)
				}
			}
		})
	}
}
