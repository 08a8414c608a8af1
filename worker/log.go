package worker

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
)

// reporter logs the failures of deliveries, whether the handler failed or a step before or after it. The lines name
// messages by kind and ID, never by content.
type reporter struct {
	log     *slog.Logger
	trouble trouble // with the store, while messages are handled
}

// logFailure logs a failed attempt. The stack of a panic, or of a handler that hangs, is logged once for a message.
func (r *reporter) logFailure(ctx context.Context, m *message, err error) {
	e := &m.envelope
	level, attrs := slog.LevelWarn, append(m.attrs(), slog.Int("attempt", e.Attempts+1), slog.Any("error", err))
	switch err := err.(type) {
	case *handlers.PanicError:
		level = slog.LevelError
		if before := e.LastError; before != err.Text && !strings.HasPrefix(before, "panic: ") {
			attrs = append(attrs, slog.String("stack", err.Stack))
		}
	case *verdict.HangError:
		level = slog.LevelError
		if e.Hangs == 0 {
			attrs = append(attrs, slog.String("stack", err.Stack))
		}
	}
	r.log.LogAttrs(ctx, level, "handler failed", attrs...)
}

// logHandBack logs that a message is handed back for no fault of its own. The first hand-back is logged as information,
// or as a warning where the kind is unknown; later ones as warnings, more and more seldom; the rest at the debug level.
func (r *reporter) logHandBack(ctx context.Context, m *message, v verdict.Verdict) {
	n := m.envelope.HandBacks + 1
	level := slog.LevelDebug
	switch {
	case v.Wait != "": // it waits for others, and that is told of them
	case seldom(n), n == 1 && v.Action == verdict.UnknownKind:
		level = slog.LevelWarn
	case n == 1:
		level = slog.LevelInfo
	}
	attrs := append(m.attrs(), slog.Int("hand_backs", n))
	if v.Reason != "" { // Later is not an error
		attrs = append(attrs, slog.String("reason", v.Reason))
	} else {
		attrs = append(attrs, slog.Any("error", v.Err))
	}
	event := "message handed back"
	if v.Action == verdict.UnknownKind {
		event = "message of unknown kind handed back for a newer worker"
	}
	r.log.LogAttrs(ctx, level, event, attrs...)
}

// logCutOff logs that a handler ended with its context. That spends no attempt.
func (r *reporter) logCutOff(ctx context.Context, m *message, cause, err error) {
	if m.began.Load() != nil {
		r.log.LogAttrs(ctx, slog.LevelInfo, "handler was cut off", append(m.attrs(), slog.Any("cause", cause), slog.Any("error", err))...)
	}
}

// logTrouble logs that the store fails: when that begins, and then more and more seldom.
func (r *reporter) logTrouble(ctx context.Context, m *message, err error) {
	if n, report := r.trouble.failed(m.place(), time.Now()); report {
		r.log.LogAttrs(ctx, slog.LevelWarn, "the store fails; messages are handed back and tried again",
			append(m.attrs(), slog.Int("handed_back", n), slog.Any("error", err))...)
	}
}

// logSuccess logs that a message was handled after failed attempts, and that the store works again after trouble.
func (r *reporter) logSuccess(m *message) {
	if n := m.envelope.Attempts; n > 0 {
		r.log.LogAttrs(context.Background(), slog.LevelInfo, "handled after failed attempts", append(m.attrs(), slog.Int("failed", n))...)
	}
	if n, report := r.trouble.worked(time.Now(), m.place(), m.envelope.ID); report {
		r.log.LogAttrs(context.Background(), slog.LevelInfo, "the store works again", slog.Int("handed_back", n))
	}
}
