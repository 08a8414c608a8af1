package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// unknown stands for what isn't known.
const unknown = "–"

// output is the standard output. Write errors are kept for flush.
type output struct {
	mu sync.Mutex
	w  *bufio.Writer
}

func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.w.Flush(); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// printf prints for people. What comes from a message or document must be clean.
func (o *output) printf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = fmt.Fprintf(o.w, format, args...) // flush tells
}

// table prints rows in columns; it cleans the cells.
func (o *output) table(head []string, rows [][]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := tabwriter.NewWriter(o.w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			if i > 0 {
				_, _ = t.Write([]byte("\t"))
			}
			_, _ = t.Write([]byte(clean(cell)))
		}
		_, _ = t.Write([]byte("\n"))
	}
	_ = t.Flush()
}

// line prints a JSON line, at once: whoever reads it shall know what is done, even if the program is killed.
func (o *output) line(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	o.printf("%s\n", cleanJSON(bytes.TrimSpace(b.Bytes())))
	return o.flush()
}

// indented is JSON as people read it.
func indented(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return clean(string(raw))
	}
	return cleanJSON(b.Bytes())
}

// printable tells what can do nothing to a terminal, nor to how a line reads.
func printable(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }

// clean writes what isn't printable as Go would, so that nothing from outside can move the cursor, colour what follows or
// turn its direction.
func clean(s string) string {
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

// lines is clean for text of several lines.
func lines(s string) string {
	all := strings.Split(s, "\n")
	for i, line := range all {
		all[i] = clean(line)
	}
	return strings.Join(all, "\n")
}

// cleanJSON is clean for JSON, which stays the same JSON: what isn't printable is in strings only.
func cleanJSON(raw []byte) string {
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

// age is a time span as short as people say it.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// count is a number of things.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
