package jsonform_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/jsonform"
)

type textOf struct{ s string }

func (x textOf) MarshalText() ([]byte, error) { return []byte(x.s), nil }

type jsonOf struct{ s string }

func (x jsonOf) MarshalJSON() ([]byte, error) { return []byte(`{"secret":"` + x.s + `"}`), nil }

// texts has text in all possible places.
type texts struct {
	Name  string            `json:"name"`
	Items []inner2          `json:"items,omitempty"`
	Notes map[string]string `json:"notes,omitempty"`
	Keyed map[textOf]int    `json:"keyed,omitempty"`
	Text  *textOf           `json:"text,omitempty"`
	JSON  *jsonOf           `json:"json,omitempty"`
	Any   any               `json:"any,omitempty"`
	inner2
}

type inner2 struct{ Note string }

// Text that is not UTF-8 is refused in every place. The error names the member and shows nothing of the content.
func TestEncodeRefusesWhatIsNotUTF8(t *testing.T) {
	t.Parallel()
	const bad = "caf\xe9"
	for _, test := range []struct {
		v    any
		want string
	}{
		{bad, "in it"},
		{&texts{Name: bad}, "in member name"},
		{texts{inner2: inner2{bad}}, "in member Note"},
		{texts{Items: []inner2{{"a"}, {bad}}}, "in member items.1.Note"},
		{texts{Notes: map[string]string{"caf": bad}}, "in member notes.*"},
		{texts{Notes: map[string]string{bad: "a"}}, "in member notes"},
		{texts{Keyed: map[textOf]int{{bad}: 1}}, "in member keyed"},
		{texts{Text: &textOf{bad}}, "in member text"},
		{texts{JSON: &jsonOf{bad}}, "in member json"},
		{texts{Any: map[string]any{"caf": []any{bad}}}, "in member any"},
		{map[string][]string{"caf": {"a", bad}}, "in member *.1"},
		{[]any{map[string]string{"caf": bad}}, "in member 0"},
	} {
		b, err := jsonform.Encode(test.v)
		if !errors.Is(err, jsonform.ErrNotUTF8) || b != nil || !strings.HasSuffix(err.Error(), test.want) || strings.Contains(err.Error(), "caf") {
			t.Errorf("%T: got %s, error %v; want one that ends with %q", test.v, b, err, test.want)
		}
	}
	for _, good := range []any{"é", "\ufffd", "\u2028", texts{Name: "\x00\U0010ffff"}} {
		if _, err := jsonform.Encode(good); err != nil {
			t.Errorf("%q: got error %v", good, err)
		}
	}
	if _, err := jsonform.Encode(texts{Name: bad, Any: func() {}}); err == nil {
		t.Error("two faults: got no error")
	}
}

func TestDecodeRefusesWhatIsNotUTF8(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"\"caf\xe9\"", `"\ud800"`, `"\udc00\ud800"`} {
		if s, err := jsonform.Decode[string]([]byte(body)); err == nil {
			t.Errorf("%q: got %q, want an error", body, s)
		}
	}
	if s, err := jsonform.Decode[string]([]byte(`"\ufffd\ud83d\ude00"`)); err != nil || s != "\ufffd😀" {
		t.Errorf("got %q, error %v", s, err)
	}
}
