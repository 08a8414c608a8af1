package handling

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/tracing"
	"github.com/millrace-go/millrace/values"
)

// traced returns a change whose calls have spans. The emissions of a call belong to its span: they follow a copy of the
// envelope, because the worker may write the envelope itself back.
func traced[V any](d *Delivery, c values.Change[V]) values.Change[V] {
	e := *c.Envelope
	fold := c.Fold
	c.Envelope = &e
	c.Fold = func(v V) (next V, emissions []channel.Message, err error) {
		ctx, span := d.Handler.channels.Tracer().Call(context.Background(), d.span, d.Handler.name)
		failed := errors.New(contain.Exited)
		defer func() { endSpan(span, failed) }()
		e.TraceParent = tracing.ParentIn(ctx)
		next, emissions, err = fold(v)
		failed = err
		return next, emissions, err
	}
	return c
}

// batched returns the context of the unit of work of some deliveries.
func batched(ctx context.Context, ds []*Delivery) context.Context {
	var spans []tracing.Span
	for _, d := range ds {
		if d.span != nil {
			spans = append(spans, d.span)
		}
	}
	if spans == nil {
		return ctx
	}
	return tracing.WithBatch(ctx, spans)
}

// endSpan ends the span of a call. It didn't fail if it changes nothing, or if it asks to see its message again later.
func endSpan(s tracing.Span, err error) {
	if s == nil {
		return
	}
	if errors.Is(err, values.ErrUnchanged) {
		err = nil
	}
	if verdict.Judge(err).Action == verdict.HandBack {
		tracing.HandBack(s)
		err = nil
	}
	tracing.End(s, err)
}
