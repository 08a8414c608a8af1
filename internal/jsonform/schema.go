package jsonform

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// schemaDialect is the dialect of the schemas that [Schema] makes.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// schema is a JSON Schema, as far as a Go type needs one.
type schema struct {
	Dialect         string             `json:"$schema,omitempty"`
	Ref             string             `json:"$ref,omitempty"`
	Type            any                `json:"type,omitempty"` // a name, or several
	Format          string             `json:"format,omitempty"`
	ContentEncoding string             `json:"contentEncoding,omitempty"`
	Minimum         json.Number        `json:"minimum,omitempty"`
	Maximum         json.Number        `json:"maximum,omitempty"`
	Properties      map[string]*schema `json:"properties,omitempty"`
	Required        []string           `json:"required,omitempty"`
	Additional      any                `json:"additionalProperties,omitempty"` // a schema, or false
	PropertyNames   *pattern           `json:"propertyNames,omitempty"`
	Items           *schema            `json:"items,omitempty"`
	MinItems        *int               `json:"minItems,omitempty"`
	MaxItems        *int               `json:"maxItems,omitempty"`
	AnyOf           []*schema          `json:"anyOf,omitempty"`
	WriteOnly       bool               `json:"writeOnly,omitempty"` // nobody reads it back
	Defs            map[string]*schema `json:"$defs,omitempty"`
}

type pattern struct {
	Pattern string `json:"pattern"`
}

// Schema returns the JSON Schema (draft 2020-12) of what a type is encoded as.
//
//   - A member without omitempty or omitzero is required, and no other member is allowed.
//   - What Go encodes as null may be null: a pointer, a slice, a map.
//   - A type with MarshalText and UnmarshalText is text. A type with other methods of its own may be anything.
//   - Structs within the type are in $defs, so a type may contain itself.
//   - A field with the tag millrace:"secret" is writeOnly: whoever shows the JSON leaves the member out.
//
// It calls no method of the type.
func Schema(t reflect.Type) ([]byte, error) {
	for t.Kind() == reflect.Pointer && !custom(t.Elem()) && t.Elem() != t {
		t = t.Elem() // a message is never null
	}
	b := &schemaBuilder{refs: map[reflect.Type]string{t: "#"}, defs: map[string]*schema{}}
	s := b.build(t)
	s.Dialect, s.Defs = schemaDialect, b.defs
	return json.Marshal(s)
}

type schemaBuilder struct {
	refs map[reflect.Type]string
	defs map[string]*schema
}

// of returns the schema for a place that has a type.
func (b *schemaBuilder) of(t reflect.Type) *schema {
	if ref, ok := b.refs[t]; ok {
		return &schema{Ref: ref}
	}
	if custom(t) || t.Name() == "" || t.Kind() != reflect.Struct && !containsItself(t) {
		return b.build(t)
	}
	name := b.nameOf(t)
	b.refs[t] = "#/$defs/" + name
	b.defs[name] = nil // taken
	b.defs[name] = b.build(t)
	return &schema{Ref: b.refs[t]}
}

var notOfName = regexp.MustCompile(`\[.*|[^A-Za-z0-9_]`)

// nameOf returns a name for a type that no other type has.
func (b *schemaBuilder) nameOf(t reflect.Type) string {
	base := notOfName.ReplaceAllString(t.Name(), "")
	name := base
	for n := 2; ; n++ {
		if _, taken := b.defs[name]; !taken {
			return name
		}
		name = base + strconv.Itoa(n)
	}
}

func (b *schemaBuilder) build(t reflect.Type) *schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &schema{Type: "string", Format: "date-time"}
	case t.Kind() == reflect.Interface:
		return &schema{}
	case custom(t):
		if isText(t) {
			return &schema{Type: "string"}
		}
		return &schema{}
	}
	switch k := t.Kind(); k {
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Float32, reflect.Float64:
		return &schema{Type: "number"}
	case reflect.Pointer:
		return nullable(b.of(t.Elem()))
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && !custom(e) {
			return &schema{Type: []string{"string", "null"}, ContentEncoding: "base64"}
		}
		return &schema{Type: []string{"array", "null"}, Items: b.of(t.Elem())}
	case reflect.Array:
		n := t.Len()
		return &schema{Type: "array", Items: b.of(t.Elem()), MinItems: &n, MaxItems: &n}
	case reflect.Map:
		s := &schema{Type: []string{"object", "null"}, Additional: b.of(t.Elem())}
		if k := t.Key().Kind(); !custom(t.Key()) && k != reflect.String {
			s.PropertyNames = &pattern{"^-?[0-9]+$"}
		}
		return s
	case reflect.Struct:
		return b.object(t)
	}
	return integer(t)
}

func (b *schemaBuilder) object(t reflect.Type) *schema {
	s := &schema{Type: "object", Additional: false, Properties: map[string]*schema{}}
	for _, m := range structureOf(t).members {
		member := b.of(m.typ)
		if m.quoted {
			member = quoted(m.typ, member)
		}
		member.WriteOnly = m.secret
		s.Properties[m.name] = member
		if !m.empty && !m.zero {
			s.Required = append(s.Required, m.name)
		}
	}
	return s
}

// integer returns the schema of a type of integers. It has no bounds of 64 bits, which no number of a person reaches.
// Types that JSON can't hold have none: see [Check].
func integer(t reflect.Type) *schema {
	s := &schema{Type: "integer"}
	switch k := t.Kind(); {
	case k >= reflect.Int8 && k <= reflect.Int32:
		s.Minimum = json.Number(strconv.FormatInt(-1<<(t.Bits()-1), 10))
		s.Maximum = json.Number(strconv.FormatInt(1<<(t.Bits()-1)-1, 10))
	case k >= reflect.Uint8 && k <= reflect.Uint32:
		s.Minimum, s.Maximum = "0", json.Number(fmt.Sprint(uint64(1)<<t.Bits()-1))
	case k >= reflect.Uint && k <= reflect.Uintptr:
		s.Minimum = "0"
	case k != reflect.Int && k != reflect.Int64:
		return &schema{}
	}
	return s
}

// quoted returns the schema of a member with the option string, which puts numbers, booleans and text in quotes.
func quoted(t reflect.Type, plain *schema) *schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if k := t.Kind(); custom(t) || k != reflect.String && (k < reflect.Bool || k > reflect.Float64) {
		return plain
	}
	if _, null := plain.Type.([]string); null {
		return nullable(&schema{Type: "string"})
	}
	return &schema{Type: "string"}
}

// nullable also allows null.
func nullable(s *schema) *schema {
	name, one := s.Type.(string)
	switch {
	case one:
		s.Type = []string{name, "null"}
	case s.Ref != "":
		return &schema{AnyOf: []*schema{s, {Type: "null"}}}
	}
	return s // it allows null already
}

// isText reports that a type is encoded and read back by its MarshalText and UnmarshalText.
func isText(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, name := range []string{"MarshalJSON", "UnmarshalJSON", "MarshalJSONTo", "UnmarshalJSONFrom"} {
		if _, ok := p.MethodByName(name); ok {
			return false
		}
	}
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// containsItself reports that a type is among the types within it.
func containsItself(t reflect.Type) bool {
	var seen []reflect.Type
	var reaches func(x reflect.Type) bool
	reaches = func(x reflect.Type) bool {
		if x == t {
			return true
		}
		if custom(x) || slices.Contains(seen, x) {
			return false
		}
		seen = append(seen, x)
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			return reaches(x.Elem())
		case reflect.Struct:
			return slices.ContainsFunc(structureOf(x).members, func(m member) bool { return reaches(m.typ) })
		}
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return reaches(t.Elem())
	}
	return false
}
