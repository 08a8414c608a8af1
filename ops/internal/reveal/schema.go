package reveal

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// A Schema is what is known of some content: the JSON Schemas of all versions that have told of it. The zero Schema is
// that of content of which nobody has told.
type Schema struct {
	at      place
	secrets bool // some of the content may be secret
}

// Of returns what JSON Schemas say together, as package jsonform makes them. Empty ones say nothing.
func Of(all ...[]byte) (s Schema) {
	for _, raw := range all {
		if len(raw) == 0 {
			continue
		}
		d := &part{}
		if json.Unmarshal(raw, d) != nil {
			s.secrets = true // nobody knows what it marks
			continue
		}
		if d.Defs == nil {
			d.Defs = map[string]*part{}
		}
		d.Defs["#"] = d // the type may contain itself
		s.at = append(s.at, node{of: d, defs: d.Defs})
		s.secrets = s.secrets || bytes.Contains(raw, []byte(`"writeOnly"`))
	}
	s.at = s.at.resolved()
	return s
}

// At is the schema of a member.
func (s Schema) At(name string) Schema { return Schema{s.at.member(name), s.secrets} }

// Silent reports that nothing is known, so that nothing is secret.
func (s Schema) Silent() bool { return len(s.at) == 0 && !s.secrets }

// Secrets reports that some of the content may be secret.
func (s Schema) Secrets() bool { return s.secrets }

// A part is a part of a JSON Schema.
type part struct {
	Ref        string           `json:"$ref"`
	Defs       map[string]*part `json:"$defs"`
	Type       json.RawMessage  `json:"type"` // a name, or several
	Properties map[string]*part `json:"properties"`
	Items      *part            `json:"items"`
	Additional *part            `json:"additionalProperties"`
	AnyOf      []*part          `json:"anyOf"`
	WriteOnly  bool             `json:"writeOnly"`

	never bool // nothing fits
}

// UnmarshalJSON also reads true, which anything fits, and false, which nothing does.
func (p *part) UnmarshalJSON(raw []byte) error {
	type plain part
	switch string(raw) {
	case "true":
		return nil
	case "false":
		p.never = true
		return nil
	}
	return json.Unmarshal(raw, (*plain)(p))
}

// A node is a part with the definitions of its schema. secret says that the way to the part is marked.
type node struct {
	of     *part
	defs   map[string]*part
	secret bool
}

// A place is what all schemas say of a value. An empty place says nothing.
type place []node

// resolved follows references, and the choices of a value or null. Each part is in the result once.
func (p place) resolved() (all place) {
	type way struct {
		of     *part
		secret bool
	}
	seen := map[way]bool{}
	for todo := slices.Clone(p); len(todo) > 0; {
		n := todo[0]
		todo = todo[1:]
		if n.of == nil || n.of.never {
			continue
		}
		n.secret = n.secret || n.of.WriteOnly
		if seen[way{n.of, n.secret}] {
			continue
		}
		seen[way{n.of, n.secret}] = true
		switch {
		case n.of.Ref != "":
			to := n.defs[strings.TrimPrefix(n.of.Ref, "#/$defs/")]
			if to == nil && n.secret {
				to = &part{}
			}
			todo = append(todo, node{to, n.defs, n.secret})
		case len(n.of.AnyOf) > 0:
			for _, x := range n.of.AnyOf {
				todo = append(todo, node{x, n.defs, n.secret})
			}
			if n.secret {
				all = append(all, node{&part{}, n.defs, true})
			}
		default:
			all = append(all, n)
		}
	}
	return all
}

func (p place) secret() bool {
	return slices.ContainsFunc(p, func(n node) bool { return n.secret })
}

// names reports that a schema names a member.
func (p place) names(name string) bool {
	return slices.ContainsFunc(p, func(n node) bool { _, ok := n.of.Properties[name]; return ok })
}

// folded is a name as Go reads it.
var folded = strings.NewReplacer("_", "", "-", "")

// member is the place of a member.
func (p place) member(name string) (all place) {
	short := folded.Replace(name)
	for _, n := range p {
		named := false
		for x, of := range n.of.Properties {
			if x == name || strings.EqualFold(folded.Replace(x), short) {
				named = true
				all = append(all, node{of: of, defs: n.defs})
			}
		}
		switch {
		case named || !n.of.may("object"):
		case n.of.Additional != nil:
			all = append(all, node{of: n.of.Additional, defs: n.defs})
		default:
			all = append(all, node{of: &part{}, defs: n.defs})
		}
	}
	return all.resolved()
}

// items is the place of the items of a list.
func (p place) items() (all place) {
	for _, n := range p {
		switch {
		case !n.of.may("array"):
		case n.of.Items != nil:
			all = append(all, node{of: n.of.Items, defs: n.defs})
		default:
			all = append(all, node{of: &part{}, defs: n.defs})
		}
	}
	return all.resolved()
}

// may reports that a value of a type fits.
func (p *part) may(name string) bool {
	return len(p.Type) == 0 || bytes.Contains(p.Type, []byte(`"`+name+`"`))
}

// allows reports that a value has a type that some schema has.
func (p place) allows(x any) bool {
	var names []string
	switch x.(type) {
	case nil:
		return true
	case bool:
		names = []string{"boolean"}
	case json.Number:
		names = []string{"number", "integer"}
	case string:
		names = []string{"string"}
	case []any:
		names = []string{"array"}
	case map[string]any:
		names = []string{"object"}
	}
	return slices.ContainsFunc(p, func(n node) bool { return slices.ContainsFunc(names, n.of.may) })
}
