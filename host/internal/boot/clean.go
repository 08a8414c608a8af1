package boot

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printable reports that a character can neither control a terminal nor change how a line reads.
func printable(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }

// Clean escapes what isn't printable as Go does. So nothing from outside can move the cursor, colour the text after
// it or turn its direction.
func Clean(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case printable(r):
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(r)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// CleanLines is Clean for text of several lines.
func CleanLines(s string) string {
	all := strings.Split(s, "\n")
	for i, line := range all {
		all[i] = Clean(line)
	}
	return strings.Join(all, "\n")
}

// AsTyped puts a program's command in front of the verbs that an error of package settings tells of: that package
// doesn't know it.
func AsTyped(err error, command string) error {
	if err == nil {
		return nil
	}
	return &typedError{err, strings.NewReplacer(`"settings back `, `"`+command+` settings back `, `"settings set `, `"`+command+` settings set `).Replace(err.Error())}
}

// typedError is an error with another text.
type typedError struct {
	err  error
	text string
}

func (e *typedError) Error() string { return e.text }

func (e *typedError) Unwrap() error { return e.err }

// CleanJSON is Clean for JSON. The JSON keeps its meaning, because unprintable characters occur in strings only.
func CleanJSON(raw []byte) string {
	var b strings.Builder
	for _, r := range string(raw) {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || printable(r):
			b.WriteRune(r)
		case r > 0xffff:
			r1, r2 := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, r1, r2)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
