package jsonform

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// member is a member of a JSON object, as a struct sees it.
type member struct {
	name   string
	typ    reflect.Type
	index  []int // for reflect.Value.FieldByIndex
	empty  bool  // omitempty
	zero   bool  // omitzero
	quoted bool  // string
	secret bool  // millrace:"secret"

	depth  int // of embedding
	tagged bool
	field  string // for error texts: shop.Stock.Left
}

// structure is a struct, as encoding/json sees it.
type structure struct {
	members []member
	lost    []string // fields that get lost: unexported, or in conflict with another field
	shared  []string // names in JSON that several of the lost fields have
	sealed  []string // embedded pointers that can be encoded but not read back
	left    bool     // a field is left out, by json:"-" or as a lock
	pointer bool     // a struct is embedded by a pointer
}

// structureOf follows encoding/json. Of fields with one name the least embedded one counts. Of several such fields
// the one that is named by its tag counts. If that leaves more than one, none counts.
func structureOf(t reflect.Type) *structure {
	s := &structure{}
	var all []member
	s.collect(t, nil, []reflect.Type{t}, &all)
	for i, m := range all {
		better := func(x member) bool { return x.depth < m.depth || x.depth == m.depth && (x.tagged || !m.tagged) }
		rival := false
		for j, x := range all {
			rival = rival || j != i && x.name == m.name && better(x)
		}
		if rival {
			s.lost = append(s.lost, m.field)
			if !slices.Contains(s.shared, m.name) {
				s.shared = append(s.shared, m.name)
			}
		} else {
			s.members = append(s.members, m)
		}
	}
	return s
}

func (s *structure) collect(t reflect.Type, index []int, within []reflect.Type, all *[]member) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		s.left = s.left || tag == "-"
		if tag == "-" || f.Name == "_" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		at := append(slices.Clone(index), i)
		held := f.Type
		if held.Kind() == reflect.Pointer && held.Name() == "" {
			held = held.Elem()
		}
		field := f.Name
		if t.Name() != "" {
			field = t.String() + "." + f.Name
		}
		inner := f.Anonymous && held.Kind() == reflect.Struct
		if inner && name == "" {
			if held != f.Type {
				s.pointer = true
				if !f.IsExported() {
					s.sealed = append(s.sealed, field)
				}
			}
			if !slices.Contains(within, held) {
				s.collect(held, at, append(slices.Clone(within), held), all)
			}
			continue
		}
		if !inner && !f.IsExported() {
			if !holdsNothing(f.Type) {
				s.lost = append(s.lost, field)
			}
			s.left = s.left || f.Type.Size() > 0
			continue
		}
		m := member{name: name, typ: f.Type, index: at, depth: len(index), tagged: name != "", field: field, secret: f.Tag.Get("millrace") == "secret"}
		if name == "" {
			m.name = f.Name
		}
		for option := range strings.SplitSeq(options, ",") {
			m.empty, m.zero, m.quoted = m.empty || option == "omitempty", m.zero || option == "omitzero", m.quoted || option == "string"
		}
		*all = append(*all, m)
	}
}

// find returns the member for a name in JSON. encoding/json ignores case if no name fits exactly.
func (s *structure) find(name string) (member, bool) {
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for _, m := range s.members {
			if same(m.name, name) {
				return m, true
			}
		}
	}
	return member{}, false
}

// holdsNothing reports that a type's values carry no data that could get lost. A lock is state of a process.
func holdsNothing(t reflect.Type) bool {
	return t.Size() == 0 || t.PkgPath() == "sync" && t.Name() != "Map"
}

// custom reports that a type's own methods encode or decode it.
func custom(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, method := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	} {
		if p.Implements(method) {
			return true
		}
	}
	for _, name := range []string{"MarshalJSONTo", "UnmarshalJSONFrom"} {
		if _, ok := p.MethodByName(name); ok {
			return true
		}
	}
	return false
}
