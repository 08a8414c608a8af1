package post

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
	return m, nil
}

// CheckType refuses a type of message whose content would not arrive.
func CheckType[M Message]() error {
	if _, err := jsonform.Check(reflect.TypeFor[M]()); err != nil {
		return fmt.Errorf("kind %s: %w", kindOf[M](), err)
	}
	return nil
}
