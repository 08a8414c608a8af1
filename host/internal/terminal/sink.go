package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/ops/act"
)

// A Text tells people: tables, things and sentences. Nothing in them can move the cursor.
type Text struct {
	out     *Output
	notes   io.Writer // where notes and progress go
	command string    // as people type it

	mu   sync.Mutex
	none string
	head []string
	rows [][]string
	told bool // something stands in the output
}

// NewText returns what tells people on an output. notes is where notes and progress go. command is the program as
// people type it.
func NewText(out *Output, notes io.Writer, command string) *Text {
	return &Text{out: out, notes: notes, command: command}
}

// Table implements act.Sink.
func (t *Text) Table(none string, head []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish()
	t.none, t.head = none, head
	return nil
}

// Row implements act.Sink.
func (t *Text) Row(_ any, cells []any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = act.Cell(c)
	}
	t.rows = append(t.rows, row)
	return nil
}

// finish prints the table that was begun, if there is one.
func (t *Text) finish() {
	switch {
	case len(t.rows) > 0:
		t.gap()
		t.out.table(t.head, t.rows)
	case t.none != "":
		t.out.printf("%s\n", boot.Clean(t.none))
		t.told = true
	}
	t.none, t.head, t.rows = "", nil, nil
}

// gap keeps two tables or things apart.
func (t *Text) gap() {
	if t.told {
		t.out.printf("\n")
	}
	t.told = true
}

// Thing implements act.Sink.
func (t *Text) Thing(_ any, parts []act.Part, body string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish()
	t.gap()
	var rows [][]string
	for _, p := range parts {
		if p.Value != nil && p.Value != "" {
			rows = append(rows, []string{p.Name, act.Cell(p.Value)})
		}
	}
	if len(rows) > 0 {
		t.out.table(nil, rows)
	}
	if body != "" {
		t.out.printf("%s\n", clean(body))
	}
	return nil
}

// clean is a text that may be JSON. JSON gets an indent.
func clean(body string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(body), "", "  ") != nil {
		return boot.CleanLines(body)
	}
	return boot.CleanJSON(b.Bytes())
}

// Say implements act.Sink.
func (t *Text) Say(_ any, words string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if words == "" {
		return nil
	}
	t.finish()
	t.out.printf("%s\n", boot.CleanLines(words))
	t.told = true
	return nil
}

// Note implements act.Sink.
func (t *Text) Note(words string) error {
	_, err := fmt.Fprintf(t.notes, "Note: %s\n", boot.CleanLines(boot.AsTyped(errors.New(words), t.command).Error()))
	return err
}

// Next implements act.Sink. Output is gone when it can't be written, and then the act's end says so.
func (t *Text) Next(_, _, note string) { _ = t.Note(note) }

// Begin implements act.Sink.
func (t *Text) Begin(what string, total int) act.Progress {
	return newProgress(t.notes, what, total)
}

// Draw implements act.Sink.
func (t *Text) Draw(object any, draw func(width int, clean func(string) string) string) error {
	width, _ := sizeOf(t.out.To)
	return t.Thing(object, nil, draw(width, boot.Clean))
}

// End implements act.Sink.
func (t *Text) End() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish()
	return t.out.Flush()
}

// Broken prints the rows of a table whose act has failed.
func (t *Text) Broken() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.none = ""
	t.finish()
}

// Lines tell programs: JSON lines, each at once, so that its reader knows what is done even if the program is killed.
type Lines struct{ *Text }

// Table implements act.Sink.
func (l *Lines) Table(string, []string) error { return nil }

// Row implements act.Sink.
func (l *Lines) Row(object any, _ []any) error { return l.line(object) }

// Thing implements act.Sink.
func (l *Lines) Thing(object any, _ []act.Part, _ string) error { return l.line(object) }

// Say implements act.Sink.
func (l *Lines) Say(object any, _ string) error { return l.line(object) }

// Draw implements act.Sink.
func (l *Lines) Draw(object any, _ func(int, func(string) string) string) error {
	return l.line(object)
}

func (l *Lines) line(object any) error {
	if object == nil {
		return nil
	}
	return l.out.line(object)
}
