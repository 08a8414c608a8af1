// Package reveal decides what anybody may see of the content of messages, documents and errors: its shape, or all of it
// but what is marked secret. Pages, the API, the terminal and the audit log have no other way to content.
//
//	shape := reveal.Shape(body, schema) // until somebody says why they need to see more
//	whole := reveal.Open(body, schema)  // after that
//
// A shape has the members that the schema names, and in place of each value what kind of value it is and how large:
//
//	{"name": "text of 3", "seats": "number", "lines": ["2 of", {"item": "text of 6"}]}
//
// # Laws
//
//   - A shape has no character of a value, and no name of a member that the schema doesn't name: the keys of a map may
//     be personal.
//   - Neither form has a value that the schema marks as writeOnly. A struct of Go marks it by the tag
//     millrace:"secret".
//   - Content that is no JSON, or that doesn't fit its schema, has a shape, too. Nothing here fails.
//   - A shape is small, whatever the content: long lists and deep nesting are cut.
package reveal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
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

// A schema is a part of a JSON Schema, as package jsonform makes it.
type schema struct {
	Ref        string             `json:"$ref"`
	Defs       map[string]*schema `json:"$defs"`
	Properties map[string]*schema `json:"properties"`
	Items      json.RawMessage    `json:"items"`
	Additional json.RawMessage    `json:"additionalProperties"`
	AnyOf      []*schema          `json:"anyOf"`
	WriteOnly  bool               `json:"writeOnly"`
}

// A walker knows the definitions of a whole schema.
type walker struct{ defs map[string]*schema }

func parse(raw []byte) (walker, *schema) {
	var s schema
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return walker{}, nil
	}
	w := walker{s.Defs}
	if w.defs == nil {
		w.defs = map[string]*schema{}
	}
	w.defs["#"] = &s // the type may contain itself
	return w, &s
}

// at follows references. It is nil where nothing is known.
func (w walker) at(s *schema) *schema {
	for range mostDepth {
		switch {
		case s == nil:
			return nil
		case s.Ref != "":
			mark := s.WriteOnly
			if s = w.defs[strings.TrimPrefix(s.Ref, "#/$defs/")]; s != nil && mark {
				marked := *s
				marked.WriteOnly = true
				s = &marked
			}
		case len(s.AnyOf) > 0: // a value or null
			mark, some := s.WriteOnly, s.AnyOf
			s = nil
			for _, x := range some {
				if x != nil && (x.Ref != "" || x.Properties != nil || len(x.Items) > 0 || len(x.Additional) > 0 || x.WriteOnly) {
					s = x
				}
			}
			if s == nil && mark {
				return &schema{WriteOnly: true}
			}
			if s != nil && mark {
				marked := *s
				marked.WriteOnly = true
				s = &marked
			}
		default:
			return s
		}
	}
	return nil
}

// sub reads a schema that may be true or false.
func sub(raw json.RawMessage) *schema {
	var s schema
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return &s
}

// Text is the shape of a text: its length, and a mark by which equal ones are known.
func Text(s string) string {
	if s == "" {
		return ""
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // it never fails
	return fmt.Sprintf("text of %d (#%08x)", utf8.RuneCountInString(s), h.Sum32())
}

// Shape returns the shape of JSON as JSON.
func Shape(raw, of []byte) json.RawMessage {
	w, s := parse(of)
	var x any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&x) != nil {
		return quote(fmt.Sprintf("no JSON, %d bytes", len(raw)))
	}
	var b strings.Builder
	w.shape(&b, x, s, 0)
	return json.RawMessage(b.String())
}

func quote(text string) json.RawMessage { return json.RawMessage(strconv.Quote(text)) }

// shape writes the shape of a value.
func (w walker) shape(b *strings.Builder, x any, s *schema, depth int) {
	s = w.at(s)
	if s != nil && s.WriteOnly {
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
		w.list(b, x, s, depth)
	case map[string]any:
		w.object(b, x, s, depth)
	}
}

func (w walker) list(b *strings.Builder, x []any, s *schema, depth int) {
	if len(x) == 0 {
		b.WriteString("[]")
		return
	}
	fmt.Fprintf(b, `["%d of"`, len(x))
	if depth < mostDepth {
		var items *schema
		if s != nil {
			items = sub(s.Items)
		}
		b.WriteString(", ")
		w.shape(b, x[0], items, depth+1)
	}
	b.WriteString("]")
}

// object writes the members that the schema names, in their order, and counts the others.
func (w walker) object(b *strings.Builder, x map[string]any, s *schema, depth int) {
	var members map[string]*schema
	if s != nil {
		members = s.Properties
	}
	b.WriteString("{")
	n, others := 0, 0
	for _, name := range slices.Sorted(maps.Keys(x)) {
		of, known := members[name]
		if !known || depth >= mostDepth || n == mostMembers {
			others++
			continue
		}
		if n++; n > 1 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(name) + ": ")
		w.shape(b, x[name], of, depth+1)
	}
	if others > 0 {
		if n > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, `"…": "%d more"`, others)
	}
	b.WriteString("}")
}

// Open returns JSON without what its schema marks as secret. Content that is no JSON is returned as a text of JSON.
func Open(raw, of []byte) json.RawMessage {
	w, s := parse(of)
	if !json.Valid(raw) {
		text, err := json.Marshal(string(raw))
		if err != nil {
			return quote(fmt.Sprintf("no JSON, %d bytes", len(raw)))
		}
		return text
	}
	if s == nil || !bytes.Contains(of, []byte(`"writeOnly"`)) {
		return json.RawMessage(raw)
	}
	var x any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&x); err != nil {
		return quote(fmt.Sprintf("no JSON, %d bytes", len(raw)))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(w.open(x, s, 0)) != nil {
		return quote(fmt.Sprintf("JSON of %d bytes", len(raw)))
	}
	return json.RawMessage(bytes.TrimSpace(b.Bytes()))
}

// open takes out what is secret. A value that is nested too deep for the schema to be followed is taken out, too.
func (w walker) open(x any, s *schema, depth int) any {
	if s = w.at(s); s == nil {
		return x
	}
	if s.WriteOnly || depth > 10*mostDepth {
		return Secret
	}
	switch x := x.(type) {
	case []any:
		items := sub(s.Items)
		for i := range x {
			x[i] = w.open(x[i], items, depth+1)
		}
	case map[string]any:
		others := sub(s.Additional)
		for name := range x {
			of, known := s.Properties[name]
			if !known {
				of = others
			}
			x[name] = w.open(x[name], of, depth+1)
		}
	}
	return x
}
