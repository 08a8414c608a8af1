package jsonform

import (
	"errors"
	"fmt"
	"io"
	"reflect"
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
		path := strings.ReplaceAll(strings.TrimPrefix(string(semantic.JSONPointer), "/"), "/", ".")
		return fmt.Errorf("%s can't be decoded into %v", memberOf[T](path), semantic.GoType)
	case errors.As(err, &older) && older.Type != nil:
		return fmt.Errorf("%s can't be decoded into %v", memberOf[T](older.Field), older.Type)
	}
	return fmt.Errorf("the JSON can't be decoded into %v (%T)", reflect.TypeFor[T](), err)
}

// memberOf names the place of a fault in a T by its top-level member only. Members below that may belong to a map, and
// their names come from the JSON.
func memberOf[T any](path string) string {
	if name, _, _ := strings.Cut(path, "."); name != "" && reflect.TypeFor[T]().Kind() == reflect.Struct {
		return "member " + name
	}
	return "the JSON"
}
