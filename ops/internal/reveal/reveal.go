// Package reveal decides what anybody may see of the content of messages, documents and errors: the shape of the
// content, or all but the members that are marked secret. Pages, the API, the terminal and the audit log have no other
// way to content.
//
//	s := reveal.Of(v1, v2)  // what the versions of a program say of content
//	shape := s.Shape(body)  // until somebody says why they need to see more
//	whole := s.Open(body)   // after that
//
// A shape has the members that the schema names, and in place of each value what kind of value it is and how large:
//
//	{"name": "text of 3", "seats": "number", "lines": ["2 of", {"item": "text of 6"}]}
//
// # Laws
//
//   - A shape has no character of a value, and no name of a member that the schema doesn't name: the keys of a map may
//     be personal.
//   - Neither form has a value that a schema marks as writeOnly. A struct of Go marks it by the tag
//     millrace:"secret". A mark of one version holds for all. Go reads a member by a name whose case differs, and so
//     does this package.
//   - Content that has secrets shows only what its schema describes: what doesn't fit the schema has its shape.
//   - Where no schema is known, no secret is: all is opened. [Schema.Silent] reports that, so that people are told.
//   - A mark of a text says nothing of the text to another process.
//   - Content that is no JSON, or that doesn't fit its schema, has a shape, too. Nothing here fails.
//   - A shape is small, whatever the content: long lists and deep nesting are cut.
//
// File schema.go finds what schemas say of a place in content; reveal.go makes both forms.
package reveal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	mostDepth   = 20
	mostMembers = 100
)

// Secret stands for a value that never leaves the process.
const Secret = "(secret)"

// Marks gives texts marks by which equal ones are known. Other Marks give other ones: else a mark would let people who
// may not see a text test guesses.
type Marks struct{ seed maphash.Seed }

// NewMarks makes Marks.
func NewMarks() Marks { return Marks{maphash.MakeSeed()} }

// Text is the shape of a text: its length, and its mark.
func (m Marks) Text(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("hidden text of %d characters (#%08x)", utf8.RuneCountInString(s), uint32(maphash.String(m.seed, s)))
}

// decode returns JSON as values. Numbers stay as they are.
func decode(raw []byte) (x any, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return x, json.Valid(raw) && dec.Decode(&x) == nil
}

func noJSON(raw []byte) json.RawMessage { return quote(fmt.Sprintf("no JSON, %d bytes", len(raw))) }

func quote(text string) json.RawMessage { return json.RawMessage(strconv.Quote(text)) }

// Shape returns the shape of JSON as JSON.
func (s Schema) Shape(raw []byte) json.RawMessage {
	var b strings.Builder
	x, ok := decode(raw)
	if !ok {
		return noJSON(raw)
	}
	shape(&b, x, s.at, 0)
	return json.RawMessage(b.String())
}

// shape writes the shape of a value.
func shape(b *strings.Builder, x any, at place, depth int) {
	if at.secret() {
		b.WriteString(strconv.Quote(Secret))
		return
	}
	switch x := x.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(`"true or false"`)
	case json.Number:
		b.WriteString(`"number"`)
	case string:
		b.WriteString(strconv.Quote(fmt.Sprintf("text of %d", utf8.RuneCountInString(x))))
	case []any:
		shapeList(b, x, at, depth)
	case map[string]any:
		shapeObject(b, x, at, depth)
	}
}

func shapeList(b *strings.Builder, x []any, at place, depth int) {
	if len(x) == 0 {
		b.WriteString("[]")
		return
	}
	fmt.Fprintf(b, `["%d of"`, len(x))
	if depth < mostDepth {
		b.WriteString(", ")
		shape(b, x[0], at.items(), depth+1)
	}
	b.WriteString("]")
}

// shapeObject writes the members that the schema names, in their order, and counts the others.
func shapeObject(b *strings.Builder, x map[string]any, at place, depth int) {
	b.WriteString("{")
	n, others := 0, 0
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if !at.names(name) || depth >= mostDepth || n == mostMembers {
			others++
			continue
		}
		if n++; n > 1 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(name) + ": ")
		shape(b, x[name], at.member(name), depth+1)
	}
	if others > 0 {
		if n > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, `"…": "%d more"`, others)
	}
	b.WriteString("}")
}

// Open returns JSON without what its schema marks as secret. Content that is no JSON is returned as a text of JSON,
// unless it may have a secret.
func (s Schema) Open(raw []byte) json.RawMessage {
	x, ok := decode(raw)
	switch {
	case !ok && s.secrets:
		return noJSON(raw)
	case !ok:
		text, err := json.Marshal(string(raw))
		if err != nil {
			return noJSON(raw)
		}
		return text
	case !s.secrets:
		return json.RawMessage(raw)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(open(x, s.at, 0)) != nil {
		return quote(fmt.Sprintf("JSON of %d bytes", len(raw)))
	}
	return json.RawMessage(bytes.TrimSpace(b.Bytes()))
}

// open takes out what is secret, and what no schema describes. A value that is nested too deep for the schema to be
// followed is taken out, too.
func open(x any, at place, depth int) any {
	switch {
	case at.secret() || depth > 10*mostDepth:
		return Secret
	case !at.allows(x):
		var b strings.Builder
		shape(&b, x, nil, 0)
		return json.RawMessage(b.String())
	}
	switch x := x.(type) {
	case []any:
		items := at.items()
		for i := range x {
			x[i] = open(x[i], items, depth+1)
		}
	case map[string]any:
		for name := range x {
			x[name] = open(x[name], at.member(name), depth+1)
		}
	}
	return x
}
