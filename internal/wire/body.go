package wire

import (
	"fmt"
	"reflect"

	"github.com/millrace-go/millrace/internal/jsonform"
)

// EncodeBody encodes a message by encoding/json's rules, but escapes nothing that need not be. So a body has the same
// bytes in a message, a blob and a document. Text that is not UTF-8 is an error, which names the member.
func EncodeBody(m any) ([]byte, error) {
	b, err := jsonform.Encode(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	}
	return b, nil
}

func decodeBody[M any](data []byte) (M, error) {
	m, err := jsonform.Decode[M](data)
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrBody, jsonform.RedactError[M](err))
	}
	if t := reflect.TypeFor[M](); t.Kind() == reflect.Pointer && reflect.ValueOf(m).IsNil() {
		return m, fmt.Errorf("%w: null for a %v", ErrBody, t)
	}
	return m, nil
}

// CheckType refuses a type of message whose content would not arrive, or one of whose methods would not be called.
func CheckType(k Kind, t reflect.Type) error {
	if _, err := jsonform.Check(t); err != nil {
		return fmt.Errorf("kind %s: %w", k, err)
	}
	for _, optional := range []reflect.Type{reflect.TypeFor[checked](), reflect.TypeFor[identified](), reflect.TypeFor[subjected]()} {
		if !t.Implements(optional) && reflect.PointerTo(t).Implements(optional) {
			return fmt.Errorf("kind %s: method %s of %v has a pointer as its receiver, so messages, which are values, don't have it: declare it for %v itself",
				k, optional.Method(0).Name, t, t)
		}
	}
	return nil
}
