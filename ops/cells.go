package ops

import (
	"html/template"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
)

// cells write what stands in the places of tables as HTML. With html/template a thousand rows take a hundred
// milliseconds, because each cell runs a dozen of its actions. So cells escape texts themselves, as prose does: what a
// cell shows, its title, its class and where it leads.
type cells struct {
	strings.Builder
	href func(*act.Link) string // the way from the page to what a link names
}

// rows are the rows of a table.
func (w *cells) rows(rows [][]lookCell) template.HTML {
	for _, row := range rows {
		w.WriteString(`<tr role="row">`)
		for _, c := range row {
			w.open(`td role="cell"`, "data-head", c.Head, "class", c.Class)
			if c.Pill != "" {
				w.open("span", "class", "status "+c.Pill)
			}
			w.cell(c.Cell)
			if c.Pill != "" {
				w.WriteString("</span>")
			}
			w.WriteString("</td>")
		}
		w.WriteString("</tr>\n")
	}
	return template.HTML(w.String())
}

// cell is the text of a cell, with the whole text as a title where the text is cut, and as a link where it leads
// somewhere.
func (w *cells) cell(c cell) template.HTML {
	href := ""
	if c.Link != nil {
		href = w.href(c.Link)
	}
	if href != "" {
		w.open("a", "href", href)
	}
	if c.Full != "" {
		w.open("span", "title", c.Full)
	}
	w.WriteString(template.HTMLEscapeString(c.Text))
	if c.Full != "" {
		w.WriteString("</span>")
	}
	if href != "" {
		w.WriteString("</a>")
	}
	return template.HTML(w.String())
}

// open writes the begin of an element with attributes, of which those without a text are left out.
func (w *cells) open(element string, attributes ...string) {
	w.WriteString("<" + element)
	for i := 0; i < len(attributes); i += 2 {
		if text := attributes[i+1]; text != "" {
			w.WriteString(" " + attributes[i] + `="` + template.HTMLEscapeString(text) + `"`)
		}
	}
	w.WriteByte('>')
}
