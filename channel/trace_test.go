package channel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/tracing/tracingtest"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const requestTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Every way to send makes one span, and the messages carry it.
func TestMessagesCarryTheSpanOfTheirSend(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(context.Context, *channel.Channels, *channel.Sender[Order]) error{
		"Send": func(ctx context.Context, _ *channel.Channels, s *channel.Sender[Order]) error {
			return s.Send(ctx, Order{})
		},
		"SendAfter": func(ctx context.Context, _ *channel.Channels, s *channel.Sender[Order]) error {
			return s.SendAfter(ctx, -1, Order{})
		},
		"SendWith": func(ctx context.Context, _ *channel.Channels, s *channel.Sender[Order]) error {
			_, err := s.SendWith(ctx, storage.Write{Container: "notes", Key: "1", Body: []byte("{}")}, Order{})
			return err
		},
		"mixed kinds": func(ctx context.Context, c *channel.Channels, _ *channel.Sender[Order]) error {
			return c.Send(ctx, Order{})
		},
		"while handling": func(ctx context.Context, c *channel.Channels, s *channel.Sender[Order]) error {
			e := handled()
			e.TraceParent = requestTrace
			return s.Send(wire.WithHandling(ctx, e, "kitchen", c), Order{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := worldtest.OpenStore(t, worldtest.Virtual), tracingtest.New(t)
			c := newChannels(t, s).TraceWith(r.Provider)
			must(t, send(channel.WithTrace(t.Context(), channel.Trace{Parent: requestTrace, Tenant: "north"}), c, senderOf[Order](t, c)))
			span, e := r.One("send orders"), receivedOne(t, s, "orders")
			if want := fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%s-01", span.SpanContext.SpanID()); e.TraceParent != want || e.Tenant != "north" {
				t.Errorf("got traceparent %s and tenant %s, want %s and north", e.TraceParent, e.Tenant, want)
			}
			if got := span.Parent.SpanID().String(); got != "b7ad6b7169203331" || span.Status.Code == codes.Error {
				t.Errorf("got a span below %s with status %v, want one below the request's", got, span.Status)
			}
		})
	}
}

// The span in the context goes before the trace of WithTrace: it is nearer to the sender.
func TestTheSpanInTheContextGoesBeforeTheTrace(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*tracingtest.Recorder) trace.TracerProvider{
		"with a provider":    func(r *tracingtest.Recorder) trace.TracerProvider { return r.Provider },
		"without a provider": func(*tracingtest.Recorder) trace.TracerProvider { return noop.NewTracerProvider() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := worldtest.OpenStore(t, worldtest.Virtual), tracingtest.New(t)
			ctx, request := r.Provider.Tracer("web").Start(t.Context(), "POST /orders")
			ctx = channel.WithTrace(ctx, channel.Trace{Parent: requestTrace, Tenant: "north"})
			c := newChannels(t, s).TraceWith(make(r))
			must(t, senderOf[Order](t, c).Send(ctx, Order{}))
			request.End()
			e := receivedOne(t, s, "orders")
			want := r.One("POST /orders").SpanContext
			if sends := r.Named("send orders"); len(sends) > 0 {
				worldtest.Want(t, "parent of the send", sends[0].Parent.SpanID(), want.SpanID())
				want = sends[0].SpanContext
			}
			worldtest.Want(t, "traceparent", e.TraceParent, fmt.Sprintf("00-%s-%s-01", want.TraceID(), want.SpanID()))
			worldtest.Want(t, "tenant", e.Tenant, "north")
		})
	}
}

// The span of a send that fails tells the type of the error, not its text.
func TestTheSpanOfASendThatFails(t *testing.T) {
	t.Parallel()
	r := tracingtest.New(t)
	s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "send" || op.Name == "commit" {
			return op.Fail(fmt.Errorf("secret: %w", storage.ErrUnavailable))
		}
		return do()
	})
	err := senderOf[Order](t, newChannels(t, s).TraceWith(r.Provider)).Send(t.Context(), Order{})
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("got error %v, want %v", err, storage.ErrUnavailable)
	}
	if got := r.One("send orders"); got.Status.Code != codes.Error || strings.Contains(fmt.Sprintf("%+v", got), "secret") {
		t.Errorf("got %+v, want a failed span without the error's text", got)
	}
}
