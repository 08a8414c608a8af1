// Package seldom logs what requests bring about: one line a second for each route, however many requests there are. A
// store that is away fails every request, and whoever sends requests must not fill the disk by the log.
package seldom

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// every is how often one thing is logged for one route, at most.
const every = time.Second

// Lines remember the last line of each thing that is logged. The zero Lines work. Safe for concurrent use.
type Lines struct {
	mu   sync.Mutex
	last map[key]line
}

// A key is what has a line a second. All of it is the program's own text, so a client can't make it many.
type key struct{ text, route, kind string }

type line struct {
	at     time.Time
	silent int // times since then that were not logged
}

// Log logs text for a request, with the request's route, and with the number of times since the last such line that
// were not logged. kind tells apart what has one text and one route; it may be empty. Log does nothing if the client
// has gone: that may be the only cause of a failure.
func (l *Lines) Log(r *http.Request, log *slog.Logger, level slog.Level, text, kind string, attrs ...slog.Attr) {
	if context.Cause(r.Context()) != nil {
		return
	}
	silent, ok := l.take(key{text, r.Pattern, kind}, time.Now())
	if !ok {
		return
	}
	all := []slog.Attr{slog.String("route", r.Pattern)}
	if kind != "" {
		all = append(all, slog.String("kind", kind))
	}
	log.LogAttrs(r.Context(), level, text, append(append(all, attrs...), slog.Int("not_logged", silent))...)
}

// take reports whether to write a line, and how many times were silent since the last one.
func (l *Lines) take(k key, now time.Time) (silent int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.last[k]
	if known && now.Sub(last.at) < every {
		last.silent++
		l.last[k] = last
		return 0, false
	}
	if l.last == nil {
		l.last = map[key]line{}
	}
	l.last[k] = line{at: now}
	return last.silent, true
}
