package contain

import (
	"context"
	"fmt"
	"log/slog"
)

// Logger returns a logger that writes to the same handler and survives its panics. A test's logger panics once the
// test is over, and the worker must not end by that. The value of the panic becomes the handler's error, which slog
// ignores.
func Logger(l *slog.Logger) *slog.Logger {
	if _, guarded := l.Handler().(guardedHandler); guarded {
		return l
	}
	return slog.New(guardedHandler{l.Handler()})
}

type guardedHandler struct{ slog.Handler }

func (h guardedHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	_ = Do(func() { enabled = h.Handler.Enabled(ctx, level) })
	return enabled
}

func (h guardedHandler) Handle(ctx context.Context, r slog.Record) error {
	err := Call(func() error { return h.Handler.Handle(ctx, r) })
	if p, ok := err.(*Panic); ok {
		return fmt.Errorf("the log handler panics: %w", p)
	}
	return err
}

func (h guardedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := h.Handler
	_ = Do(func() { with = h.Handler.WithAttrs(attrs) })
	return guardedHandler{with}
}

func (h guardedHandler) WithGroup(name string) slog.Handler {
	with := h.Handler
	_ = Do(func() { with = h.Handler.WithGroup(name) })
	return guardedHandler{with}
}
