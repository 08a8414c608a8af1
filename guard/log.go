package guard

import (
	"context"
	"log/slog"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/internal/contain"
)

// say logs an event. Only the beginning and the end of an outage, and what is wrong, are lines that all see.
func (g *Guard) say(e breaker.Event) {
	g.fleet.On(e)
	if e.Kind == breaker.Opened {
		g.tally.opened.Add(1)
	}
	if e.Kind == breaker.Inconclusive || e.Kind == breaker.CallsFail {
		return
	}
	log := g.logger()
	level, line := slog.LevelInfo, ""
	attrs := []slog.Attr{slog.String("guard", g.name)}
	switch e.Kind {
	case breaker.Opened:
		level, line = slog.LevelWarn, "a service fails or asks to wait; its calls pause"
		attrs = append(attrs, slog.Duration("probe_in", e.Next), slog.String("error", e.Last))
	case breaker.Relapses:
		level, line = slog.LevelWarn, "a service that answered again fails; its calls pause again"
		attrs = append(attrs, slog.Duration("probe_in", e.Next), slog.String("error", e.Last))
	case breaker.Stays:
		level, line = slog.LevelDebug, "a service is still away"
		attrs = append(attrs, slog.Duration("probe_in", e.Next), slog.String("error", e.Last))
	case breaker.Recovers:
		line = "a service answers again; its calls begin slowly"
		attrs = append(attrs, slog.Duration("after", e.Took))
	case breaker.IsClosed:
		level, line = slog.LevelDebug, "a service is called as before"
		attrs = append(attrs, slog.Duration("after", e.Took))
	case breaker.Overdue:
		level, line = slog.LevelWarn, "a call of a service goes on for too long; others take its place"
		attrs = append(attrs, slog.String("id", e.ID), slog.Duration("after", e.Took))
	case breaker.Stuck:
		level, line = slog.LevelError, "a breaker stayed shut beyond its time, which is a fault of this package; it lets one call through"
		attrs = append(attrs, slog.Duration("late", e.Took))
	}
	log.LogAttrs(context.Background(), level, line, attrs...)
}

func (g *Guard) logger() *slog.Logger {
	if g.cfg.Logger != nil {
		return g.cfg.Logger
	}
	if log := g.log.Load(); log != nil {
		return log
	}
	return contain.Logger(slog.Default())
}
