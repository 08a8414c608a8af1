package jsonform

import (
	"bytes"
	"cmp"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Exact tells for the values of one type whether decoding their JSON form gives the same value. A doubtful value is
// not exact, which only costs time.
type Exact struct {
	never bool
	test  tester // nil: all values of the type are exact
}

// tester tells whether a value comes back unchanged, and notes the memory that it refers to.
type tester func(v reflect.Value, refs *[]span) bool

// span is memory that a value refers to and that the value's owner may write to.
type span struct{ from, to uintptr }

// ExactOf returns the Exact of a type.
func ExactOf(t reflect.Type) *Exact {
	test, ok := compile(t, nil)
	return &Exact{never: !ok, test: test}
}

// Same reports that the JSON form of the value at pointer v gives the same value. It is false for a value that
// refers to one thing twice, because two things come back.
func (x *Exact) Same(v any) bool {
	if x.never || x.test == nil {
		return !x.never
	}
	refs := make([]span, 0, 4)
	if !x.test(reflect.ValueOf(v).Elem(), &refs) {
		return false
	}
	slices.SortFunc(refs, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(refs); i++ {
		if refs[i].from < refs[i-1].to {
			return false
		}
	}
	return true
}

// compile returns the tester of a type (nil: all of its values are exact). It returns false if it can't tell: for
// interfaces, types with methods of their own but jsontext.Value, structs that lose fields, and types that contain
// themselves.
func compile(t reflect.Type, within []reflect.Type) (tester, bool) {
	if t == reflect.TypeFor[time.Time]() {
		return exactTime, true
	}
	if t == reflect.TypeFor[jsontext.Value]() {
		return exactRaw, true
	}
	if slices.Contains(within, t) || t.PkgPath() == "encoding/json" || t.Kind() != reflect.Interface && custom(t) {
		return nil, false
	}
	within = append(slices.Clone(within), t)
	switch k := t.Kind(); k {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64:
		return nil, true
	case reflect.Struct:
		return compileStruct(t, within)
	case reflect.Array, reflect.Slice, reflect.Map, reflect.Pointer:
		elem, ok := compile(t.Elem(), within)
		if !ok {
			return nil, false
		}
		switch {
		case k == reflect.Array:
			return exactArray(elem), true
		case k == reflect.Slice:
			return exactSlice(t, elem), true
		case k == reflect.Map:
			return exactMap(elem), plainKey(t.Key()) && !custom(t.Key()) // a key's own text need not be the key
		}
		inner := t.Elem().Kind()
		return exactPointer(t, elem), inner != reflect.Pointer && inner != reflect.Slice && inner != reflect.Map // null would stand for either
	}
	return nil, t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr
}

func compileStruct(t reflect.Type, within []reflect.Type) (tester, bool) {
	s := structureOf(t)
	if len(s.lost) > 0 || s.left || s.pointer {
		return nil, false
	}
	var tests []tester
	for _, m := range s.members {
		test, ok := compile(m.typ, within)
		_, judges := reflect.PointerTo(m.typ).MethodByName("IsZero")
		judges = judges || m.typ.Kind() == reflect.Struct || m.typ.Kind() == reflect.Array // a negative zero in it would be left out, too
		raw := m.typ == reflect.TypeFor[jsontext.Value]()
		if !ok || m.zero && judges && m.typ != reflect.TypeFor[time.Time]() || m.quoted && (raw || m.typ.Kind() == reflect.Pointer) {
			return nil, false
		}
		if raw && (m.empty || m.zero) {
			test = exactRawOrNone
		}
		if omits := omitted(m); omits != nil || test != nil {
			tests = append(tests, func(v reflect.Value, refs *[]span) bool {
				v = v.FieldByIndex(m.index)
				return (omits == nil || !omits(v)) && (test == nil || test(v, refs))
			})
		}
	}
	if tests == nil {
		return nil, true
	}
	return func(v reflect.Value, refs *[]span) bool {
		for _, test := range tests {
			if !test(v, refs) {
				return false
			}
		}
		return true
	}, true
}

// omitted returns a function that reports whether a value is left out although it isn't the zero value.
func omitted(m member) func(reflect.Value) bool {
	switch k := m.typ.Kind(); {
	case m.empty && (k == reflect.Slice || k == reflect.Map):
		return func(v reflect.Value) bool { return !v.IsNil() && v.Len() == 0 }
	case (m.empty || m.zero) && (k == reflect.Float32 || k == reflect.Float64):
		return func(v reflect.Value) bool { return v.Float() == 0 && math.Signbit(v.Float()) }
	}
	return nil
}

// exactTime accepts only a time in UTC without a monotonic reading: no other time certainly comes back unchanged.
func exactTime(v reflect.Value, _ *[]span) bool {
	t := v.Interface().(time.Time)
	return t == t.Round(0).UTC()
}

// exactRaw accepts JSON in the form that encoding gives it. A nil one would come back as null.
func exactRaw(v reflect.Value, refs *[]span) bool {
	raw := jsontext.Value(v.Bytes())
	if n := uintptr(v.Cap()); n > 0 {
		*refs = append(*refs, span{v.Pointer(), v.Pointer() + n})
	}
	compact, escapes := scan(raw)
	if !compact || !raw.IsValid() {
		return false
	}
	if !escapes {
		return true
	}
	form, err := Encode(raw)
	return err == nil && bytes.Equal(form, raw)
}

// exactRawOrNone is exactRaw for a member that is left out where it is nil.
func exactRawOrNone(v reflect.Value, refs *[]span) bool { return v.IsNil() || exactRaw(v, refs) }

// deepest is how deep JSON may certainly nest within a value. The encoder's limit is 10,000.
const deepest = 9_000

// scan reports whether valid JSON has no space between its tokens, and doesn't nest too deep, and whether its text has
// escapes. Encoding leaves JSON without these as it is.
func scan(raw []byte) (compact, escapes bool) {
	quoted, depth := false, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			escapes = true
			i++
		case '"':
			quoted = !quoted
		case ' ', '\t', '\n', '\r':
			if !quoted {
				return false, escapes
			}
		case '{', '[':
			if quoted {
				continue
			}
			if depth++; depth > deepest {
				return false, escapes
			}
		case '}', ']':
			if !quoted {
				depth--
			}
		}
	}
	return true, escapes
}

func exactArray(elem tester) tester {
	if elem == nil {
		return nil
	}
	return func(v reflect.Value, refs *[]span) bool {
		for i := range v.Len() {
			if !elem(v.Index(i), refs) {
				return false
			}
		}
		return true
	}
}

func exactSlice(t reflect.Type, elem tester) tester {
	all := exactArray(elem)
	size := t.Elem().Size()
	return func(v reflect.Value, refs *[]span) bool {
		if n := uintptr(v.Cap()) * size; n > 0 {
			*refs = append(*refs, span{v.Pointer(), v.Pointer() + n})
		}
		return all == nil || all(v, refs)
	}
}

func exactMap(elem tester) tester {
	return func(v reflect.Value, refs *[]span) bool {
		if v.IsNil() {
			return true
		}
		*refs = append(*refs, span{v.Pointer(), v.Pointer() + 1})
		if elem == nil {
			return true
		}
		for each := v.MapRange(); each.Next(); {
			if !elem(each.Value(), refs) {
				return false
			}
		}
		return true
	}
}

func exactPointer(t reflect.Type, elem tester) tester {
	size := t.Elem().Size()
	return func(v reflect.Value, refs *[]span) bool {
		if v.IsNil() {
			return true
		}
		if size > 0 {
			*refs = append(*refs, span{v.Pointer(), v.Pointer() + size})
		}
		return elem == nil || elem(v.Elem(), refs)
	}
}
