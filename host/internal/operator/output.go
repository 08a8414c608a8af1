package operator

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

// Write implements io.Writer, for text of this program's own.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
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
