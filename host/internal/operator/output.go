package operator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
)

// unknown stands for an unknown value.
const unknown = "–"

// output is the standard output. Write errors are kept for flush.
type output struct {
	to       io.Writer // what w writes to
	terminal bool      // it is one

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

// printf prints for people. Text from a message or document must be clean.
func (o *output) printf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = fmt.Fprintf(o.w, format, args...) // flush reports it
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
			_, _ = t.Write([]byte(boot.Clean(cell)))
		}
		_, _ = t.Write([]byte("\n"))
	}
	_ = t.Flush()
}

// line prints a JSON line at once, so that its reader knows what is done even if the program is killed.
func (o *output) line(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	o.printf("%s\n", boot.CleanJSON(bytes.TrimSpace(b.Bytes())))
	return o.flush()
}

// indented formats JSON for people.
func indented(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return boot.Clean(string(raw))
	}
	return boot.CleanJSON(b.Bytes())
}

// short cuts text for a cell of a table.
func short(s string) string {
	const most = 100
	if r := []rune(s[:min(len(s), 4*(most+1))]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// age is a short form of a time span for people.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// count is a number with its noun.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
