package guard

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/handlers"
)

// event is something that happens to a breaker.
type event struct {
	kind eventKind
	id   string        // of the message of an overdue call
	last string        // the last error of a call
	took time.Duration // the outage, or the overdue call, so far
	next time.Duration // until the next probe
}

type eventKind int

const (
	opened eventKind = iota
	stays            // open
	recovers
	relapses // it opens again, soon after
	isClosed
	overdue
	unknown // a probe told nothing
	uneasy  // calls of a closed breaker fail, so other processes may have reported an outage
	stuck   // it stayed shut beyond its time
)

// say logs an event. Only the beginning and the end of an outage, and what is wrong, are lines that all see.
func (g *Guard) say(e event) {
	g.fleet.on(e)
	if e.kind == opened {
		g.tally.opened.Add(1)
	}
	if e.kind == unknown || e.kind == uneasy {
		return
	}
	log := g.logger()
	level, line := slog.LevelInfo, ""
	attrs := []slog.Attr{slog.String("guard", g.name)}
	switch e.kind {
	case opened:
		level, line = slog.LevelWarn, "a service fails or asks to wait; its calls pause"
		attrs = append(attrs, slog.Duration("probe_in", e.next), slog.String("error", e.last))
	case relapses:
		level, line = slog.LevelWarn, "a service that answered again fails; its calls pause again"
		attrs = append(attrs, slog.Duration("probe_in", e.next), slog.String("error", e.last))
	case stays:
		level, line = slog.LevelDebug, "a service is still away"
		attrs = append(attrs, slog.Duration("probe_in", e.next), slog.String("error", e.last))
	case recovers:
		line = "a service answers again; its calls begin slowly"
		attrs = append(attrs, slog.Duration("after", e.took))
	case isClosed:
		level, line = slog.LevelDebug, "a service is called as before"
		attrs = append(attrs, slog.Duration("after", e.took))
	case overdue:
		level, line = slog.LevelWarn, "a call of a service goes on for too long; others take its place"
		attrs = append(attrs, slog.String("id", e.id), slog.Duration("after", e.took))
	case stuck:
		level, line = slog.LevelError, "a breaker stayed shut beyond its time, which is a fault of this package; it lets one call through"
		attrs = append(attrs, slog.Duration("late", e.took))
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
	return handlers.GuardLogger(slog.Default())
}
