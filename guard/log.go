package guard

import (
	"context"
	"log/slog"
	"time"
)

// event is a line of the log.
type event struct {
	what string
	kind eventKind
	err  error
	took time.Duration
	next time.Duration
}

type eventKind int

const (
	opened eventKind = iota
	stays
	recovers
	isClosed
	overdue
)

// say logs what has happened to the breaker.
func (g *Guard) say(e event) {
	log := g.cfg.Logger
	if log == nil {
		if log = g.log.Load(); log == nil {
			log = slog.Default()
		}
	}
	level, line := slog.LevelInfo, ""
	attrs := []slog.Attr{slog.String("guard", g.name)}
	switch e.kind {
	case opened:
		level, line = slog.LevelWarn, "a service fails or asks to wait; its calls pause"
		attrs = append(attrs, slog.Duration("probe_in", e.next), slog.Any("error", e.err))
	case stays:
		level, line = slog.LevelDebug, "a service is still away"
		attrs = append(attrs, slog.Duration("probe_in", e.next), slog.Any("error", e.err))
	case recovers:
		line = "a service answers again; its calls begin slowly"
		attrs = append(attrs, slog.Duration("after", e.took))
	case isClosed:
		level, line = slog.LevelDebug, "a service is called as before"
		attrs = append(attrs, slog.Duration("after", e.took))
	case overdue:
		level, line = slog.LevelWarn, "a call of a service goes on for too long; others take its place"
		attrs = append(attrs, slog.String("id", e.what), slog.Duration("after", e.took))
	}
	log.LogAttrs(context.Background(), level, line, attrs...)
}
