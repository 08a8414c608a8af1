package act

import (
	"fmt"
	"iter"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// A Page selects a part of a list of things that have names.
type Page struct {
	Prefix, After string
	Limit         int
}

// List are the fields of a page.
func List(p *Page, things, names string) []Field {
	p.Limit = 100
	return []Field{
		Text(&p.Prefix, "prefix", fmt.Sprintf("only %s whose %s begin with this `TEXT`", things, names)).With(storage.CheckKey),
		Text(&p.After, "after", fmt.Sprintf("only %s after this `%s`, in the order of the %s", things, strings.ToUpper(strings.TrimSuffix(names, "s")), names)),
		Limit(&p.Limit, things),
	}
}

// Limit is the field of a list's length.
func Limit(to *int, things string) Field {
	return Number(to, "limit", "list at most this `NUMBER` of "+things+", 1 to 100000", 1, 100_000)
}

// A Listing is a list of things that have names, as a table.
type Listing[T any] struct {
	None string   // what people read if there is no row
	Head []string // the first column is the name

	Name    func(T) string
	Row     func(T) (object any, cells []any)
	Corrupt func(x T, fault string) (object any) // of a thing that can't be read; nil if Row tells of one all the same
}

// Tell tells the things that a page selects. Beside a thing that can't be read, a note tells why.
func (l Listing[T]) Tell(c *Call, p Page, list iter.Seq2[T, error]) error {
	if err := c.Table(l.None, l.Head...); err != nil {
		return err
	}
	var faults []string
	rows, last := 0, ""
	for x, err := range list {
		n := l.Name(x)
		if err != nil && n == "" {
			return err
		}
		if n <= p.After || !strings.HasPrefix(n, p.Prefix) {
			continue
		}
		if rows == p.Limit {
			c.Next("after", last)
			break
		}
		rows, last = rows+1, n
		object, cells := l.line(x, n, err)
		if err != nil {
			faults = append(faults, err.Error())
		}
		if err := c.Row(object, cells...); err != nil {
			return err
		}
	}
	for _, f := range faults[:min(len(faults), MostFaults)] {
		c.Note("%s", f)
	}
	return nil
}

// line is the row of a thing.
func (l Listing[T]) line(x T, name string, fault error) (object any, cells []any) {
	if fault == nil || l.Corrupt == nil {
		return l.Row(x)
	}
	cells = make([]any, len(l.Head))
	cells[0], cells[1] = name, Corrupt
	return l.Corrupt(x, fault.Error()), cells
}

// NamesOf returns the names of a list for completion, at most so many that a person would read them.
func NamesOf[T any](list iter.Seq2[T, error], name func(T) string) (names []string) {
	const most = 1000
	for x := range list {
		n := name(x)
		if n == "" || len(names) == most {
			break // the list has failed, or is too long
		}
		names = append(names, n)
	}
	return names
}

// Corrupt stands for what a document says that can't be read.
const Corrupt = "corrupt"
