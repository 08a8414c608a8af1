package boot

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// NewLogger returns a logger that writes for people where w is a terminal, with colour unless NO_COLOR is set, and JSON
// lines elsewhere.
func NewLogger(w io.Writer, level slog.Level, getenv func(string) string) *slog.Logger {
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, ReplaceAttr: readable, TimeFormat: time.TimeOnly, NoColor: getenv("NO_COLOR") != ""}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))
}

// readable writes durations as people do, which JSON has as nanoseconds, and leaves out what is nil: no error.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch {
	case a.Value.Kind() == slog.KindDuration:
		return slog.String(a.Key, a.Value.Duration().String())
	case a.Value.Kind() == slog.KindAny && a.Value.Any() == nil:
		return slog.Attr{}
	}
	return a
}
