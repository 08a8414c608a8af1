package jsonform

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// ErrNotUTF8 reports text that JSON can't hold.
var ErrNotUTF8 = errors.New("text that is not valid UTF-8")

// Encode encodes by encoding/json's rules, but escapes only where JSON requires it. It refuses two members of one
// name. It refuses text that is not UTF-8 by [ErrNotUTF8], with the text's member.
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v, jsonv1.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false), jsontext.AllowDuplicateNames(false),
		jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false), jsontext.PreserveRawStrings(false))
	if err == nil {
		return b, nil
	}
	if _, other := json.Marshal(v, jsonv1.DefaultOptionsV1(), jsontext.AllowDuplicateNames(false)); other != nil {
		return nil, err
	}
	// Only the text is at fault, and only the newer form of errors tells its place.
	_, err = json.Marshal(v, jsonv1.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false), jsonv1.ReportErrorsWithLegacySemantics(false))
	var at *jsontext.SyntacticError
	if !errors.As(err, &at) {
		return nil, ErrNotUTF8
	}
	return nil, fmt.Errorf("%w in %s", ErrNotUTF8, place(reflect.TypeOf(v), at.JSONPointer))
}

// Decode decodes by encoding/json's rules, but refuses text that is not UTF-8. It ignores members that the type
// doesn't have.
func Decode[T any](data []byte) (v T, err error) {
	err = json.Unmarshal(data, &v, jsonv1.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false))
	return v, err
}

// DecodeKnown is Decode, and reports whether the type knows all members of the data.
func DecodeKnown[T any](data []byte) (v T, known bool, err error) {
	err = json.Unmarshal(data, &v, jsonv1.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false), json.RejectUnknownMembers(true))
	if err == nil {
		return v, true, nil
	}
	v, err = Decode[T](data)
	return v, false, err
}

// DecodeStrictly is Decode for data that somebody outside has written. It refuses members that the type doesn't have,
// also those whose names differ in case, and two members of one name. Unlike others, its error names an unknown member.
func DecodeStrictly[T any](data []byte) (v T, err error) { return decodeStrictly[T](data, true) }

// DecodeNewer is DecodeStrictly, but passes over members that the type doesn't have: a newer release may have written
// them.
func DecodeNewer[T any](data []byte) (v T, err error) { return decodeStrictly[T](data, false) }

func decodeStrictly[T any](data []byte, known bool) (v T, err error) {
	err = json.Unmarshal(data, &v, jsonv1.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false), jsontext.AllowDuplicateNames(false),
		json.RejectUnknownMembers(known), json.MatchCaseInsensitiveNames(false), jsonv1.ReportErrorsWithLegacySemantics(false))
	if at := (*json.SemanticError)(nil); errors.Is(err, json.ErrUnknownName) && errors.As(err, &at) {
		return v, &UnknownError{name: at.JSONPointer.LastToken(), within: dotted(at.JSONPointer.Parent()), known: namesAt(reflect.TypeFor[T](), at.JSONPointer.Parent())}
	}
	if err != nil {
		err = RedactError[T](err)
	}
	return v, err
}

// place describes the place of a pointer in a value, by names that the type has. Keys of maps, and members from a
// type's own methods, are content, which no error may repeat.
func place(t reflect.Type, p jsontext.Pointer) string {
	var names []string
	for token := range p.Tokens() {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Interface || custom(t) {
			break
		}
		switch t.Kind() {
		case reflect.Struct:
			m, ok := structureOf(t).find(token)
			if !ok {
				return "member " + strings.Join(names, ".")
			}
			names, t = append(names, m.name), m.typ
		case reflect.Map:
			names, t = append(names, "*"), t.Elem()
		case reflect.Slice, reflect.Array:
			names, t = append(names, token), t.Elem()
		}
	}
	if len(names) == 0 {
		return "it"
	}
	return "member " + strings.Join(names, ".")
}
