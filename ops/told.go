package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/doctor"
)

// mostRows bounds what a page shows of one act. A list has a limit of its own, which is smaller.
const mostRows = 1000

// A told is what an act has told. It is a sink, and doesn't change any more once the act has ended.
type told struct {
	mu      sync.Mutex
	Blocks  []*block
	Objects []any
	Notes   []string
	Cut     bool // there was more than a page shows
	More    *more
	At      time.Time

	confirmed map[string]string // see Confirm
	Outcome   act.Outcome       // see Came

	words func(text string) string // puts the words of the pages into a text for people

	rows int
}

// A more is where a list goes on: the text of a field. Note says so to people who type, in place of a link.
type more struct{ Field, Text, Note string }

// A block is a part of a page: a table, a thing, some lines or a finding.
type block struct {
	Head  []string
	Rows  [][]cell
	None  string
	Parts []part
	Text  string
	Lines bool // Text has several lines

	Finding *doctor.Finding // that Text tells; nil for another text
}

// A part is a part of a thing.
type part struct {
	Name string
	Cell cell
}

// A cell is what people read in a place of a table.
type cell struct {
	Text, Full string // Full is the whole text if Text is cut; a moment for an age
	Link       *act.Link
	Number     bool
}

func newCell(x any) cell {
	c := cell{Text: act.Cell(x)}
	switch x := x.(type) {
	case time.Time:
		if !x.IsZero() {
			c.Full = x.UTC().Format("2006-01-02 15:04:05 UTC")
		}
	case int, int64, uint64, float64, time.Duration:
		c.Number = true
	case act.Link:
		c.Link = &x
	}
	return c
}

func (t *told) Table(none string, head []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Blocks = append(t.Blocks, &block{Head: head, None: none})
	return nil
}

func (t *told) Row(object any, cells []any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows++; t.rows > mostRows {
		t.Cut = true
		return nil
	}
	t.add(object)
	row := make([]cell, len(cells))
	for i, c := range cells {
		row[i] = newCell(c)
	}
	if len(t.Blocks) == 0 || t.Blocks[len(t.Blocks)-1].Head == nil {
		return fmt.Errorf("ops: an act tells a row without a table")
	}
	last := t.Blocks[len(t.Blocks)-1]
	last.Rows = append(last.Rows, row)
	return nil
}

func (t *told) Thing(object any, parts []act.Part, text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(object)
	var pretty bytes.Buffer
	if json.Indent(&pretty, []byte(text), "", "  ") == nil {
		text = pretty.String()
	}
	b := &block{Text: text, Lines: true}
	for _, p := range parts {
		if p.Value != nil && p.Value != "" {
			b.Parts = append(b.Parts, part{p.Name, newCell(p.Value)})
		}
	}
	t.Blocks = append(t.Blocks, b)
	return nil
}

// Draw implements the sink: a page has pictures of its own.
func (t *told) Draw(object any, draw func(width int, clean func(string) string) string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(object)
	t.Blocks = append(t.Blocks, &block{Text: draw(100, func(s string) string { return s }), Lines: true})
	return nil
}

func (t *told) Say(object any, text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(object)
	if text == "" {
		return nil
	}
	text = t.words(text)
	if t.rows++; t.rows > mostRows {
		t.Cut = true
		return nil
	}
	b := &block{Text: text}
	if f, ok := object.(doctor.Finding); ok {
		b.Finding = &f
	}
	t.Blocks = append(t.Blocks, b)
	return nil
}

// add keeps an object for programs. mu is held.
func (t *told) add(object any) {
	if object != nil {
		t.Objects = append(t.Objects, object)
	}
}

// size is about how many bytes the told has. Objects count as much as what people read.
func (t *told) size() int {
	const each = 200 // of a row, a cell or an object, beside its text
	n := each * len(t.Objects)
	for _, b := range t.Blocks {
		n += each + 2*len(b.Text)
		for _, row := range b.Rows {
			for _, c := range row {
				n += each + 2*len(c.Text) + len(c.Full)
			}
		}
		for _, p := range b.Parts {
			n += each + 2*len(p.Cell.Text)
		}
	}
	return n
}

func (t *told) Next(field, text, note string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.More = &more{Field: field, Text: text, Note: t.words(note)}
}

// next is the query with which the request goes on that has told all this with a query; nil at its end, and where a
// page may ask for no more.
func (t *told) next(a *act.Act, given url.Values) url.Values {
	if t == nil || t.More == nil || bound(a.Request(), url.Values{t.More.Field: {t.More.Text}}) != nil {
		return nil
	}
	on := maps.Clone(given)
	if on == nil {
		on = url.Values{}
	}
	on.Set(t.More.Field, t.More.Text)
	return on
}

// notes are all notes, for programs.
func (t *told) notes() []string {
	if t.More == nil {
		return t.Notes
	}
	return append(slices.Clone(t.Notes), t.More.Note)
}

// Confirm implements what [act.Call.Confirm] looks for.
func (t *told) Confirm(field, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.confirmed == nil {
		t.confirmed = map[string]string{}
	}
	t.confirmed[field] = text
}

// Came implements what [act.Call.Came] looks for.
func (t *told) Came(to act.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Outcome = to
}

func (t *told) Note(text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Notes = append(t.Notes, t.words(text))
	return nil
}

func (t *told) Begin(string, int) act.Progress { return silent{} }

func (t *told) End() error { return nil }

// silent is a progress that nobody sees.
type silent struct{}

func (silent) Add(int) {}
func (silent) End()    {}

// link lets the first cell of each row of a list lead to its thing.
func (t *told) link(a *act.Act) {
	if a.Verb != "list" {
		return
	}
	for _, b := range t.Blocks {
		for _, row := range b.Rows {
			if slices.ContainsFunc(row, func(c cell) bool { return c.Link != nil }) {
				continue // the act knows better
			}
			if c := &row[0]; c.Text != act.Unknown {
				c.Link = &act.Link{Act: a.Name(), With: map[string]string{thingIn: c.Text}}
			}
		}
	}
}

// Findings are what doctor has told.
func (t *told) Findings() (all []doctor.Finding) {
	for _, x := range t.Objects {
		if f, ok := x.(doctor.Finding); ok {
			all = append(all, f)
		}
	}
	return all
}

// answer is what programs read.
type answer struct {
	Results []any     `json:"results"`
	Notes   []string  `json:"notes"`
	At      time.Time `json:"at"`             // when the store was read
	More    bool      `json:"more,omitempty"` // there was more than a page shows

	// Next are the members with which the same request tells what comes after.
	Next map[string]string `json:"next,omitempty"`
}

func (t *told) json() ([]byte, error) {
	a := answer{Results: t.Objects, Notes: t.notes(), At: t.At.UTC(), More: t.Cut}
	if t.More != nil {
		a.Next = map[string]string{t.More.Field: t.More.Text}
	}
	if a.Results == nil {
		a.Results = []any{}
	}
	if a.Notes == nil {
		a.Notes = []string{}
	}
	return json.Marshal(a)
}

// surfaceOf is how the pages and the API name fields: a form labels a field by its name, and JSON has the name as its
// member.
func surfaceOf(desk *act.Desk) act.Surface {
	return act.Surface{Command: desk.Command, Word: func(f act.Field) string { return strconv.Quote(f.Name) }, Before: func(f act.Field) string { return f.Name }}
}

// newTold begins what a request tells, in the words of the pages.
func newTold(desk *act.Desk, q *act.Request) *told {
	return &told{At: time.Now(), words: func(text string) string { return surfaceOf(desk).Text(q, text) }}
}
