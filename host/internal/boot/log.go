package boot

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// NewLogger returns a logger, whose level may change. It writes for people where w is a terminal, with colour unless
// NO_COLOR is set, and JSON lines elsewhere. A record is one line, and nothing in it can move the cursor or colour the
// text after it.
func NewLogger(w io.Writer, level slog.Leveler, getenv func(string) string) *slog.Logger {
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return slog.New(forPeople(w, level, getenv("NO_COLOR") != ""))
	}
	return slog.New(slog.NewJSONHandler(jsonLines{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))
}

func forPeople(w io.Writer, level slog.Leveler, noColor bool) slog.Handler {
	return tint.NewTextHandler(w, &tint.Options{Level: level, ReplaceAttr: plain, TimeFormat: time.TimeOnly, NoColor: noColor})
}

// readable writes durations as people do, not as JSON's nanoseconds. It leaves out nil values, such as no error.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch {
	case a.Value.Kind() == slog.KindDuration:
		return slog.String(a.Key, a.Value.Duration().String())
	case a.Value.Kind() == slog.KindAny && a.Value.Any() == nil:
		return slog.Attr{}
	}
	return a
}

// plain is readable for a terminal: it also cleans messages and values.
func plain(groups []string, a slog.Attr) slog.Attr {
	a = readable(groups, a)
	switch _, isLevel := a.Value.Any().(slog.Level); {
	case a.Value.Kind() == slog.KindString, a.Value.Kind() == slog.KindAny && !isLevel && a.Key != "":
		// tint turns the four characters \x1b into an escape, even where the text itself holds those four.
		a.Value = slog.StringValue(strings.ReplaceAll(Clean(fmt.Sprint(a.Value.Any())), `\x1b`, `\u001b`))
	}
	return a
}

// jsonLines cleans characters that JSON may hold but a terminal obeys.
type jsonLines struct{ w io.Writer }

func (j jsonLines) Write(line []byte) (int, error) {
	if _, err := io.WriteString(j.w, CleanJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}
