package jsonform

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// RedactError returns an error that says why JSON can't be decoded into a T, from the decoder's error. Errors end in
// logs and the JSON may be personal, so it repeats nothing of the JSON.
func RedactError[T any](err error) error {
	var (
		syntax   *jsontext.SyntacticError
		semantic *json.SemanticError
		older    *jsonv1.UnmarshalTypeError
	)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return errors.New("an object has two members with one name")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends too early")
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d", syntax.ByteOffset)
	case errors.As(err, &semantic) && semantic.GoType != nil:
		return unfit[T](dotted(semantic.JSONPointer), semantic.GoType)
	case errors.As(err, &older) && older.Type != nil:
		return unfit[T](older.Field, older.Type)
	}
	return &TypeError{place: "the JSON", of: reflect.TypeFor[T](), cause: fmt.Sprintf(" (%T)", err)}
}

// A TypeError says that JSON, or a member of it, can't be decoded into a type of Go.
type TypeError struct {
	place string
	path  string // of the whole place, names of the JSON included; empty: not known
	of    reflect.Type
	cause string
	whole bool // the place is what can't be decoded, and not something within it
}

func unfit[T any](path string, of reflect.Type) *TypeError {
	return &TypeError{place: memberOf[T](path), path: path, of: of, whole: !strings.Contains(path, ".")}
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("%s can't be decoded into %v%s", e.place, e.of, e.cause)
}

// InFull is the error with the whole path of the place, and with what the type wants there. It is for JSON whose names
// are not personal.
func (e *TypeError) InFull() string {
	switch want := wanted(e.of.Kind()); {
	case len(e.path) == 0 || len(e.path) > longestPath:
		return e.Error()
	case custom(e.of) || want == "":
		return fmt.Sprintf("%s can't be decoded into %v", e.path, e.of)
	case e.of.Kind() == reflect.Struct:
		return fmt.Sprintf("%s: %s with %s", e.path, strings.TrimPrefix(want, "; "), list(namesAt(e.of, "")))
	default:
		return fmt.Sprintf("%s: %s", e.path, strings.TrimPrefix(want, "; "))
	}
}

// longestPath is the longest path in an error.
const longestPath = 200

// An UnknownError says that JSON has a member that a type of Go doesn't have.
type UnknownError struct {
	name   string
	within string   // path of the object, names of the JSON included; empty: the whole
	known  []string // names of the members that the type has there
}

func (e *UnknownError) Error() string { return fmt.Sprintf("unknown member %q", e.name) }

// InFull is the error with the whole path of the object, and with the members that it may have. It is for JSON whose
// names are not personal.
func (e *UnknownError) InFull() string {
	text := e.Error()
	if e.within != "" && len(e.within) <= longestPath {
		text += " in " + e.within
	}
	if len(e.known) == 0 {
		return text
	}
	return text + "; want one of " + list(e.known)
}

// list joins names, which may be too many.
func list(names []string) string {
	const most = 30
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// namesAt returns the names of the members that a type's JSON may have at a place, in their order; none: any names, or
// it isn't known.
func namesAt(t reflect.Type, at jsontext.Pointer) (names []string) {
	for token := range at.Tokens() {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch k := t.Kind(); {
		case custom(t):
			return nil
		case k == reflect.Struct:
			m, ok := structureOf(t).find(token)
			if !ok {
				return nil
			}
			t = m.typ
		case k == reflect.Map, k == reflect.Slice, k == reflect.Array:
			t = t.Elem()
		default:
			return nil
		}
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct && !custom(t) {
		for _, m := range structureOf(t).members {
			names = append(names, m.name)
		}
	}
	slices.Sort(names)
	return names
}

// For is the error for people who don't know the type: name is what they call it.
func (e *TypeError) For(name string) string {
	want := ""
	if e.whole && !custom(e.of) {
		want = wanted(e.of.Kind())
	}
	return fmt.Sprintf("%s doesn't fit %s%s", e.place, name, want)
}

// wanted says which JSON a kind of type wants.
func wanted(k reflect.Kind) string {
	switch k {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "; want a whole number"
	case reflect.Float32, reflect.Float64:
		return "; want a number"
	case reflect.String:
		return "; want a text"
	case reflect.Bool:
		return "; want true or false"
	case reflect.Array, reflect.Slice:
		return "; want a list"
	case reflect.Map, reflect.Struct:
		return "; want an object"
	}
	return ""
}

// dotted joins the names of a pointer by dots. A name with a dot is in quotes.
func dotted(p jsontext.Pointer) string {
	var names []string
	for name := range p.Tokens() {
		if strings.Contains(name, ".") {
			name = strconv.Quote(name)
		}
		names = append(names, name)
	}
	return strings.Join(names, ".")
}

// memberOf names the place of a fault in a T by its top-level member only. Members below that may belong to a map, and
// their names come from the JSON.
func memberOf[T any](path string) string {
	if name, _, _ := strings.Cut(path, "."); name != "" && reflect.TypeFor[T]().Kind() == reflect.Struct {
		return "member " + name
	}
	return "the JSON"
}
