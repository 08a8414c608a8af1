package jsonform

import (
	"bytes"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// KeepUnknown returns a value's new form, with the members of its old form that its type doesn't know. A newer
// version of the program has written them. An inner object keeps its unknown members if it has the same name, or
// the same key in a map. Members of objects in arrays are not kept: nothing identifies an element.
func KeepUnknown(t reflect.Type, old, new []byte) ([]byte, error) {
	u, err := (&finder{structures: map[reflect.Type]*structure{}}).find(jsontext.NewDecoder(bytes.NewReader(old)), t)
	if u == nil || err != nil {
		return new, err
	}
	var b bytes.Buffer
	if err := u.weave(jsontext.NewDecoder(bytes.NewReader(new)), jsontext.NewEncoder(&b)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// unknown holds the members of an object that its type doesn't know.
type unknown struct {
	names  []string
	values []jsontext.Value
	within map[string]*unknown // of the members that the type does know
}

type finder struct{ structures map[reflect.Type]*structure }

// find reads a value, and returns nil if its type knows all members.
func (f *finder) find(dec *jsontext.Decoder, t reflect.Type) (*unknown, error) {
	for t.Kind() == reflect.Pointer && !custom(t.Elem()) {
		t = t.Elem()
	}
	if dec.PeekKind() != '{' || t.Kind() != reflect.Map && t.Kind() != reflect.Struct || custom(t) {
		return nil, dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	u := &unknown{within: map[string]*unknown{}}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		known, to := f.member(t, name)
		if to == nil {
			v, err := dec.ReadValue()
			if err != nil {
				return nil, err
			}
			u.names, u.values = append(u.names, name), append(u.values, v.Clone())
			continue
		}
		inner, err := f.find(dec, to)
		if err != nil {
			return nil, err
		}
		if inner != nil {
			u.within[known] = inner
		}
	}
	_, err := dec.ReadToken()
	if len(u.names)+len(u.within) == 0 {
		return nil, err
	}
	return u, err
}

// member returns the name under which a type encodes a member, and the member's type, or nil for an unknown member.
func (f *finder) member(t reflect.Type, name string) (string, reflect.Type) {
	if t.Kind() == reflect.Map {
		return name, t.Elem()
	}
	s := f.structures[t]
	if s == nil {
		s = structureOf(t)
		f.structures[t] = s
	}
	m, _ := s.find(name)
	return m.name, m.typ
}

// weave copies a value and adds the unknown members to its objects.
func (u *unknown) weave(dec *jsontext.Decoder, enc *jsontext.Encoder) error {
	if u == nil || dec.PeekKind() != '{' {
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		return enc.WriteValue(v)
	}
	has := map[string]bool{}
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		kind, name := token.Kind(), token.String()
		if kind == '}' {
			break
		}
		if err := enc.WriteToken(token); err != nil {
			return err
		}
		if kind == '{' {
			continue
		}
		has[name] = true
		if err := u.within[name].weave(dec, enc); err != nil {
			return err
		}
	}
	for i, name := range u.names {
		if has[name] {
			continue
		}
		if err := enc.WriteToken(jsontext.String(name)); err != nil {
			return err
		}
		if err := enc.WriteValue(u.values[i]); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}
