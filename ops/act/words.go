package act

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Short cuts text for a cell of a table.
func Short(s string) string {
	const most = 100
	if r := []rune(s[:min(len(s), 4*(most+1))]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// Age is a short form of a time span for people.
func Age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Ago tells people when something was.
func Ago(t time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return Age(time.Since(t)) + " ago"
}

// Clock is a moment for people, by this machine's zone; "" for the zero time.
func Clock(t time.Time) string { return ClockIn(t.Local()) }

// ClockIn is Clock by the time's own zone.
func ClockIn(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if _, offset := t.Zone(); offset == 0 {
		return t.Format("2006-01-02 15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 -0700")
}

// Count is a number with its noun.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Maybe is nil for the zero value, which stands for an unknown one.
func Maybe[T comparable](x T) *T {
	var zero T
	if x == zero {
		return nil
	}
	return &x
}

// ShellWord quotes a word for a shell if it needs that. A shell may expand a word that begins with =.
func ShellWord(s string) string {
	if s != "" && s[0] != '=' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

var simpleWord = regexp.MustCompile(`^[-.\w]{0,40}$`)

// Word quotes an unknown argument for an error. An argument that may hold a secret it doesn't repeat.
func Word(arg string) string {
	if simpleWord.MatchString(arg) {
		return strconv.Quote(arg)
	}
	return fmt.Sprintf("(%d bytes, not shown because they may be secret)", len(arg))
}
