package act

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/ops/internal/faults"
	"github.com/millrace-go/millrace/ops/internal/reveal"
)

// Unknown stands for an unknown value.
const Unknown = "–"

// A Call is a run of an act. A Call knows the person, the desk, and the sink for what the act tells.
type Call struct {
	*Desk
	ID     string // from audit.NewID. An act that is begun again under its ID is done once. "" means a new one
	By     string // who does it
	From   string // an address, or the name of a machine
	Why    string
	DryRun bool

	revealed bool      // content may be told
	silent   sync.Once // people were told that content has no schema
	goesOn   bool      // the audit log gets the end from somebody else
	to       Sink
}

// NewCall makes a call whose findings go to a sink.
func NewCall(d *Desk, by string, to Sink) *Call { return &Call{Desk: d, By: by, to: to} }

// A Sink takes what an act tells. Its methods may be called by several goroutines. object is what programs read. It is
// nil where there is nothing for them. An error of a sink ends the act.
type Sink interface {
	// Table begins a table. none is what people read if no row follows.
	Table(none string, head []string) error
	// Row adds a row to the table that was begun last.
	Row(object any, cells []any) error
	// Thing tells all of one thing: its parts, and a text, which may be JSON.
	Thing(object any, parts []Part, text string) error
	// Say tells a sentence, or several lines. If text is "", people are told nothing.
	Say(object any, text string) error
	// Note tells people something beside the result.
	Note(text string) error
	// Next says that there is more: the same request with another text for a field tells it. note says so to people who
	// type.
	Next(field, text, note string)
	// Begin begins to count work that may take long. total may be 0, which is unknown.
	Begin(what string, total int) Progress
	// Draw tells a thing as a drawing that fits a width. clean makes text from outside harmless, and may make the text
	// longer.
	Draw(object any, draw func(width int, clean func(string) string) string) error
	// End shows all that was told. It comes at the end of an act that ends well, and perhaps before.
	End() error
}

// A Progress is how far work has come. Its methods may be called by several goroutines.
type Progress interface {
	Add(n int) // so many items more are done
	End()      // may be called again
}

// A Part is a part of a thing. A part whose value is "" or nil isn't shown.
type Part struct {
	Name  string
	Value any
}

// A Link is a cell or part from which another act can be reached.
type Link struct {
	Text string            `json:"-"`
	Act  string            `json:"act"`            // by its name
	With map[string]string `json:"with,omitempty"` // the text of fields of its request
}

// Content is JSON content as the request may see it: its shape, or the JSON without what its schema marks as secret.
// Where nobody has told a schema, nothing is secret, and people are told.
func (c *Call) Content(raw []byte, schema reveal.Schema) json.RawMessage {
	if !c.revealed {
		return schema.Shape(raw)
	}
	if schema.Silent() && len(raw) > 0 {
		c.silent.Do(func() {
			c.Note("No program has published what of this content is secret, so all of it is shown.")
		})
	}
	return schema.Open(raw)
}

// Revealed reports that content may be told.
func (c *Call) Revealed() bool { return c.revealed }

// Fault is the text of an error as the request may see it: whole, or the framework's own words and the shape of the
// program's text. shown are names that are told beside the text.
func (c *Call) Fault(text string, shown ...string) string {
	if c.revealed {
		return text
	}
	return c.Veiled(text, shown...)
}

// Veiled is the text of an error for everybody: see Fault.
func (c *Call) Veiled(text string, shown ...string) string {
	own, rest := faults.Split(text, func(name string) bool {
		return slices.Contains(shown, name) || c.Known != nil && c.Known.Names(name)
	})
	return own + c.marks.Text(rest)
}

// An Outcome is how far an act has come that ends well.
type Outcome int

// The outcomes.
const (
	IsDone    Outcome = iota
	IsBegun           // it goes on in the background
	IsAsked           // somebody else does it, or refuses to
	IsNothing         // there was nothing to do
)

// Came says how far the act has come; without it an act that ends well is done. A sink whose person reads it has the
// method, too.
func (c *Call) Came(to Outcome) {
	if sink, ok := outermost(c.to).(interface{ Came(to Outcome) }); ok {
		sink.Came(to)
	}
}

// outermost is the sink behind the listener of the audit log.
func outermost(to Sink) Sink {
	if l, ok := to.(*listener); ok {
		return l.Sink
	}
	return to
}

// GoesOn says that the act goes on after its run, perhaps in another process. The process that ends the act then writes
// the end into the audit log.
func (c *Call) GoesOn() { c.goesOn = true }

// Table begins a table. none is what people read if no row follows.
func (c *Call) Table(none string, head ...string) error { return c.to.Table(none, head) }

// Row adds a row to the table that was begun last. A cell is a string, a number, a time, which is told as an age, or
// nil, which is unknown. object is what programs read.
func (c *Call) Row(object any, cells ...any) error { return c.to.Row(object, cells) }

// Thing tells all of one thing: its parts, and a text. A text that is JSON is shown with an indent.
func (c *Call) Thing(object any, parts []Part, text string) error {
	return c.to.Thing(object, parts, text)
}

// Say tells a sentence, or several lines. object is what programs read in its place; nil if they read nothing. An empty
// text is for programs alone.
func (c *Call) Say(object any, format string, args ...any) error {
	return c.to.Say(object, fmt.Sprintf(format, args...))
}

// Note tells people something beside the result.
func (c *Call) Note(format string, args ...any) { _ = c.to.Note(fmt.Sprintf(format, args...)) } // the result is worth more

// Next says that there is more: the same request with another text for a field tells it.
func (c *Call) Next(field, text string) {
	c.to.Next(field, text, fmt.Sprintf("There are more: --%s %s shows them.", field, ShellWord(text)))
}

// Confirm says which text of a field has the act do no more than this dry run has told. A sink whose person confirms
// what was told has the method, too.
func (c *Call) Confirm(field, text string) {
	if to, ok := c.to.(interface{ Confirm(field, text string) }); ok {
		to.Confirm(field, text)
	}
}

// Begin begins to count work that may take long. total may be 0, which is unknown.
func (c *Call) Begin(what string, total int) Progress { return c.to.Begin(what, total) }

// Draw tells a thing as a drawing that fits a width. draw cleans text from outside before it measures the text.
func (c *Call) Draw(object any, draw func(width int, clean func(string) string) string) error {
	return c.to.Draw(object, draw)
}

// Flush has all that was told so far shown. An act that goes on for long calls it.
func (c *Call) Flush() error { return c.to.End() }

// MostFaults is how many faults are told one by one.
const MostFaults = 10

// Cell returns a cell as text for people.
func Cell(x any) string {
	switch x := x.(type) {
	case nil:
		return Unknown
	case string:
		if x == "" {
			return Unknown
		}
		return x
	case time.Time:
		return Ago(x)
	case time.Duration:
		return Age(x)
	case Link:
		return x.Text
	}
	return fmt.Sprint(x)
}
