package terminal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"

	"github.com/millrace-go/millrace/host/internal/boot"
)

// An Output is the standard output. Write errors are kept for Flush.
type Output struct {
	To       io.Writer // what is written to in the end
	Terminal bool      // it is one

	mu sync.Mutex
	w  *bufio.Writer
}

// NewOutput returns the output to a writer.
func NewOutput(w io.Writer) *Output {
	return &Output{To: w, Terminal: isTerminal(w), w: bufio.NewWriter(w)}
}

// Flush writes what was kept back, and returns the first error of writing.
func (o *Output) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.w.Flush(); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// Write implements io.Writer, for text of this program's own.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

// printf prints for people. Text from a message or document must be clean.
func (o *Output) printf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = fmt.Fprintf(o.w, format, args...) // flush reports it
}

// table prints rows in columns; it cleans the cells.
func (o *Output) table(head []string, rows [][]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := tabwriter.NewWriter(o.w, 0, 0, 2, ' ', 0)
	if head != nil {
		rows = append([][]string{head}, rows...)
	}
	for _, row := range rows {
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
func (o *Output) line(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	o.printf("%s\n", boot.CleanJSON(bytes.TrimSpace(b.Bytes())))
	return o.Flush()
}
