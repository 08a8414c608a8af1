package handlers

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
)

// Next runs a delivery: a handler, or what a middleware made of one. For Decide and projections it may be
// called more than once for a delivery, when others changed the document meanwhile.
type Next func(ctx context.Context, d *Delivery) error

// Middleware wraps what runs a delivery. One that returns nil without calling Next ends the message: it is done
// and has changed nothing.
type Middleware func(Next) Next

// wrap puts the middleware around the innermost function, once for each handler.
func (r *Registry) wrap(h *Handler, inner Next) Next {
	next := inner
	for i := len(r.cfg.Middleware) - 1; i >= 0; i-- {
		next = r.cfg.Middleware[i](next)
	}
	return r.logged(h, recovered(next))
}

// recovered turns a panic into an error of this message alone.
func recovered(next Next) Next {
	return func(ctx context.Context, d *Delivery) (err error) {
		defer caught(&err)
		return next(ctx, d)
	}
}

// caught is deferred where a panic shall become an error.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// again tells that what is handed back for the nth time deserves a warning: one that waits for long, and more seldom as it goes on.
func again(n int) bool { return n >= 8 && n&(n-1) == 0 }

// logged logs failures: by kind and ID, never by content. A verdict of poison is logged by the worker, when it is carried out.
func (r *Registry) logged(h *Handler, next Next) Next {
	log := r.cfg.Logger.With("handler", h.name, "kind", string(h.kind), "queue", h.queue)
	return func(ctx context.Context, d *Delivery) error {
		err := next(ctx, d)
		if err == nil {
			return nil
		}
		v := Judge(err)
		if v.Action == ToPoison {
			return err
		}
		what, level, count := "handler failed", slog.LevelWarn, slog.Int("attempt", d.Envelope.Attempts+1)
		if v.Action == HandBack || v.Action == Unavailable { // which is no attempt
			what, count = "handed back", slog.Int("hand_backs", d.Envelope.HandBacks+1)
			if !again(d.Envelope.HandBacks + 1) {
				level = slog.LevelInfo
			}
		}
		attrs := []slog.Attr{slog.String("id", d.Envelope.ID), count, slog.Any("error", err)}
		cause := context.Cause(ctx)
		if errors.Is(ctx.Err(), context.Canceled) && (errors.Is(err, context.Canceled) || errors.Is(err, cause)) {
			// Cut off, at a stop or because the message was lost, which is no attempt.
			level, attrs = slog.LevelInfo, append(attrs, slog.Any("cause", cause))
		}
		if p, ok := err.(*PanicError); ok {
			level = slog.LevelError
			attrs = append(attrs, slog.String("stack", string(p.Stack)))
		}
		log.LogAttrs(ctx, level, what, attrs...)
		return err
	}
}
