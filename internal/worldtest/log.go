package worldtest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Log is a slog.Handler that keeps all records, each as one line: the level, the message and the attributes as
// key=value, without quotes. The attributes of a logger come before those of a record.
type Log struct {
	attrs string
	lines *lines // shared by all handlers of one log
}

type lines struct {
	mu  sync.Mutex
	all []string // under mu
}

// NewLog returns an empty log.
func NewLog() *Log { return &Log{lines: &lines{}} }

// Enabled is true for every level.
func (*Log) Enabled(context.Context, slog.Level) bool { return true }

// WithGroup ignores the group.
func (l *Log) WithGroup(string) slog.Handler { return l }

// WithAttrs returns a handler of the same log.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	for _, a := range attrs {
		with.attrs += text(a)
	}
	return &with
}

// Handle adds a line.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message + l.attrs
	r.Attrs(func(a slog.Attr) bool { line += text(a); return true })
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	l.lines.all = append(l.lines.all, line)
	return nil
}

func text(a slog.Attr) string { return fmt.Sprintf(" %s=%v", a.Key, a.Value) }

// Count counts the lines that hold all these parts. Without a part, it counts all lines.
func (l *Log) Count(parts ...string) (n int) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	for _, line := range l.lines.all {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			n++
		}
	}
	return n
}

// String returns all lines.
func (l *Log) String() string {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	return strings.Join(l.lines.all, "\n")
}
