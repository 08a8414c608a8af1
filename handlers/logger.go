package handlers

import (
	"context"
	"fmt"
	"log/slog"
)

// GuardLogger returns a logger that writes to the same handler and survives its panics. A test's logger panics once the
// test is over, and the worker must not end by that. The value of the panic becomes the handler's error, which slog
// ignores.
func GuardLogger(l *slog.Logger) *slog.Logger {
	if _, guarded := l.Handler().(guardedHandler); guarded {
		return l
	}
	return slog.New(guardedHandler{l.Handler()})
}

type guardedHandler struct{ slog.Handler }

func (h guardedHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

func (h guardedHandler) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("handlers: the log handler panics: %s", textOf(v))
		}
	}()
	return h.Handler.Handle(ctx, r)
}

func (h guardedHandler) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	defer func() {
		if recover() != nil {
			with = h
		}
	}()
	return guardedHandler{h.Handler.WithAttrs(attrs)}
}

func (h guardedHandler) WithGroup(name string) (with slog.Handler) {
	defer func() {
		if recover() != nil {
			with = h
		}
	}()
	return guardedHandler{h.Handler.WithGroup(name)}
}
