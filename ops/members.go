package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/draft"
)

// membersOf reads a JSON object. A member that occurs twice is an error at any depth: one of the two would be lost, and
// perhaps the other one is meant. A member that is empty or null is an error, as an empty flag of a command line is:
// the member comes from a program's empty variable, and must not mean "any".
func membersOf(from io.Reader) (url.Values, error) {
	body, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("this request can't be read: %w", err)
	}
	if err := draft.CheckObject(body); err != nil {
		return nil, fmt.Errorf("%w: the members of the body are the fields of the act", err)
	}
	var members map[string]any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&members); err != nil || members == nil {
		return nil, errors.New("want a JSON object, whose members are the fields of the act")
	}
	values := url.Values{}
	for name, x := range members {
		list, many := x.([]any)
		if !many {
			list = []any{x}
		}
		for _, one := range list {
			text, err := textOf(one)
			if err != nil {
				return nil, err
			}
			if one == nil || strings.TrimSpace(text) == "" {
				return nil, fmt.Errorf("%s is empty: leave it out, or give it a value", act.Word(name))
			}
			values.Add(name, text)
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%s is an empty list: leave it out, or give it a value", act.Word(name))
		}
	}
	return values, nil
}

// textOf is a JSON value as the text of a field. An object is the content of a field.
func textOf(x any) (string, error) {
	if text, ok := x.(string); ok {
		return text, nil
	}
	raw, err := json.Marshal(x)
	return string(raw), err
}
