package flow

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// shorten bounds a text that the document keeps. It may come from the program, as that of a panic does.
func shorten(s string) string { return Text(s, maxText) }

// Text is a text of the program as a message or a document can hold it: UTF-8, and cut between two letters where it has
// more than most bytes.
func Text(s string, most int) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// null returns a JSON value, null for none.
func null(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
}
