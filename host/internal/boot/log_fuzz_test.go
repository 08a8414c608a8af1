package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// logged is what each kind of log makes of a record with the text in every place: in the message, as in the HTTP
// server's errors and panics, and in values.
func logged(text string) map[string]string {
	all := map[string]string{}
	for name, handler := range map[string]func(io.Writer) slog.Handler{
		"colour": func(w io.Writer) slog.Handler { return forPeople(w, slog.LevelInfo, false) },
		"plain":  func(w io.Writer) slog.Handler { return forPeople(w, slog.LevelInfo, true) },
		"json": func(w io.Writer) slog.Handler {
			return NewLogger(w, slog.LevelInfo, func(string) string { return "" }).Handler()
		},
	} {
		var b bytes.Buffer
		h := handler(&b)
		log := slog.New(h).With("with", text).WithGroup("group")
		log.Warn("message", "string", text, "error", errors.New(text), slog.Group("in", "side", text), "list", []string{text}, "bytes", []byte(text))
		slog.NewLogLogger(h, slog.LevelWarn).Print(text)
		all[name] = b.String()
	}
	return all
}

var escapes = regexp.MustCompile("\x1b" + `(\[[0-9;]*m)?`)

// ordinary has the escapes of an ordinary text, which are the handler's own.
var ordinary = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for name, got := range logged("text with blanks") {
		all[name] = escapes.FindAllString(got, -1)
	}
	return all
})

// checkLogged wants two lines, and no escapes except those of an ordinary text.
func checkLogged(t *testing.T, text string) {
	t.Helper()
	for name, got := range logged(text) {
		if n := strings.Count(got, "\n"); n != 2 {
			t.Errorf("%s: %q makes %d lines of 2: %q", name, text, n, got)
		}
		if got, want := escapes.FindAllString(got, -1), ordinary()[name]; !slices.Equal(got, want) {
			t.Errorf("%s: %q makes the escapes %q of %q", name, text, got, want)
		}
		if strings.ContainsFunc(escapes.ReplaceAllString(got, ""), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q reaches the terminal: %q", name, text, got)
		}
		if name == "json" {
			for line := range strings.Lines(got) {
				if !json.Valid([]byte(line)) {
					t.Errorf("%q makes a line that is no JSON: %q", text, line)
				}
			}
		}
	}
}

// nasty are texts that have been used to attack logs.
var nasty = []string{
	"\nERR all is lost", "\r\nERR all is lost", "\x1b[2J\x1b[31mred", `\x1b[31mred`, `\\x1b[31m and blanks`, "\u009b31m", "\u202eeman", "\u2028next", "\x00\x07\x08\x7f",
	"\xff\xfe and more", "\ufffd", "a\x1b", `"}` + "\n" + `{"level":"ERROR"}`, "with=equals", "", " ", "ü€😀\u200d",
}

// No text from outside makes a second line or an escape in a log.
func TestLogInjection(t *testing.T) {
	t.Parallel()
	for _, text := range nasty {
		checkLogged(t, text)
	}
}

// Cleaned JSON has the same content.
func TestJSONLogsKeepTheirText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\nERR", "\x1b[31m", "\u009b31m", "\u202eeman", "😀 ü \x7f", `\u009b`, `\\`, "\U000e0001"} {
		var b bytes.Buffer
		NewLogger(&b, slog.LevelInfo, func(string) string { return "" }).Info(text)
		var got struct{ Msg string }
		if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.Msg != text {
			t.Errorf("%q is logged as %q (%v)", text, b.String(), err)
		}
	}
}

// A program's error reads as lines and controls no terminal, because it may repeat a server's answer. It doesn't
// repeat what an operator has typed in the wrong place.
func TestFailuresAreClean(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	p := Process{Args: []string{"-x\x1b[31m"}, Getenv: func(string) string { return "" }, Stdout: &out, Stderr: &errs}
	Main(t.Context(), p, NewFlags("test", "", p.Getenv), nil)
	p.Args = nil
	Main(t.Context(), p, NewFlags("test", "", p.Getenv), func(context.Context, *slog.Logger, *slog.LevelVar) error {
		return errors.New("first\r\nsecond \u009b2J")
	})
	if got, want := errs.String(), `test: first\r`+"\n"+`second \u009b2J`+"\n"; !strings.HasSuffix(got, want) || strings.ContainsAny(got, "\r\x1b\u009b") || strings.Contains(got, "31m") {
		t.Errorf("got %q, want it clean, and at its end %q", got, want)
	}
}

func FuzzLog(f *testing.F) {
	for _, text := range nasty {
		f.Add(text)
	}
	f.Fuzz(checkLogged)
}
