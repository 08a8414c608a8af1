package reveal

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/jsonform"
)

const orders = `{"$defs":{"Card":{"type":"object","properties":{"number":{"type":"string","writeOnly":true},"month":{"type":"integer"}}},"Line":{"type":"object","properties":{"item":{"type":"string"},"more":{"$ref":"#/$defs/Line"}}}},
"type":"object","properties":{"id":{"type":"string"},"paid":{"type":"boolean"},"card":{"anyOf":[{"$ref":"#/$defs/Card"},{"type":"null"}]},"lines":{"type":"array","items":{"$ref":"#/$defs/Line"}},
"by":{"type":"object","additionalProperties":{"$ref":"#/$defs/Card"}},"pin":{"anyOf":[{"type":"string"},{"type":"null"}],"writeOnly":true},"whole":{"$ref":"#/$defs/Card","writeOnly":true}}}`

// Law: a shape tells kinds and sizes, names members of the schema alone, and has nothing of a value.
func TestLawAShapeHasNothingOfAValue(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"id":"o17","paid":true,"lines":[{"item":"teapot","n":7},{"item":"cup"}]}`: `{"id": "text of 3", "lines": ["2 of", {"item": "text of 6", "…": "1 more"}], "paid": "true or false"}`,
		`{"card":{"number":"4111","month":12},"by":{"ada":{"number":"4111"}}}`:      `{"by": {"…": "1 more"}, "card": {"month": "number", "number": "(secret)"}}`,
		`{"card":null,"pin":"1234","whole":{"month":1}}`:                            `{"card": null, "pin": "(secret)", "whole": "(secret)"}`,
		`{"ada":"x","bob":"y"}`: `{"…": "2 more"}`,
		`"text"`:                `"text of 4"`,
		`[]`:                    `[]`,
		`not JSON`:              `"no JSON, 8 bytes"`,
		``:                      `"no JSON, 0 bytes"`,
	} {
		if got := string(Of([]byte(orders)).Shape([]byte(body))); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
	for _, schema := range []string{"", "junk", `{"$ref":"#/$defs/none"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`, `{"anyOf":[null]}`} {
		if got := string(Of([]byte(schema)).Shape([]byte(`{"ada":"lovelace"}`))); got != `{"…": "1 more"}` {
			t.Errorf("schema %s: got %s", schema, got)
		}
	}
}

// Law: what is marked secret is in no form.
func TestLawSecretsAreNeverOpened(t *testing.T) {
	t.Parallel()
	const body = `{"id":"o17","card":{"number":"4111","month":12},"by":{"ada":{"number":"4111","month":1}},"pin":"1234","whole":{"number":"4111"},"other":[1.50]}`
	got := string(Of([]byte(orders)).Open([]byte(body)))
	if want := `{"by":{"ada":{"month":1,"number":"(secret)"}},"card":{"month":12,"number":"(secret)"},"id":"o17","other":[1.50],"pin":"(secret)","whole":"(secret)"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, body := range []string{`{"a":"<b>"}`, `7`} {
		if got := string(Of(nil).Open([]byte(body))); got != body {
			t.Errorf("got %s, want %s", got, body)
		}
	}
	if got := string(Of().Open([]byte("a\x00b"))); got != `"a\u0000b"` {
		t.Errorf("got %s", got)
	}
}

// A text has a length, and a mark by which equal ones are known.
func TestText(t *testing.T) {
	t.Parallel()
	m := NewMarks()
	a, b := m.Text("dial tcp: no route to ada"), m.Text("dial tcp: no route to bob")
	if a == b || a != m.Text("dial tcp: no route to ada") || !strings.HasPrefix(a, "hidden text of 25 characters (#") || m.Text("") != "" || a == NewMarks().Text("dial tcp: no route to ada") {
		t.Errorf("got %q and %q", a, b)
	}
}

// Any content with any schema has a shape that is JSON, is small, and has none of its texts.
func FuzzShape(f *testing.F) {
	f.Add([]byte(`{"id":"xyzzy","lines":[{"item":"xyzzy"}]}`), []byte(orders))
	f.Add([]byte(strings.Repeat(`{"more":`, 1000)+`"xyzzy"`+strings.Repeat("}", 1000)), []byte(`{"$ref":"#/$defs/L","$defs":{"L":{"properties":{"more":{"$ref":"#/$defs/L"}}}}}`))
	f.Add([]byte(`[`+strings.Repeat(`"xyzzy",`, 5000)+`1]`), []byte(`{"items":{"type":"string"}}`))
	f.Fuzz(func(t *testing.T, body, schema []byte) {
		got := Of(schema).Shape(body)
		if !json.Valid(got) || len(got) > 1<<20 {
			t.Errorf("%q: got %d bytes: %s", body, len(got), got)
		}
		if strings.Contains(string(got), "xyzzy") && !strings.Contains(string(schema), "xyzzy") {
			t.Errorf("%q: got %s", body, got)
		}
		if open := Of(schema).Open(body); !json.Valid(open) {
			t.Errorf("%q: got %s", body, open)
		}
	})
}

// A struct of Go marks its secrets by a tag, wherever it stands in a message that may contain itself.
func TestSecretsOfGo(t *testing.T) {
	t.Parallel()
	type card struct {
		Number string `json:"number" millrace:"secret"`
		Month  int    `json:"month"`
	}
	type order struct {
		ID    string          `json:"id"`
		Card  *card           `json:"card"`
		Cards map[string]card `json:"cards,omitempty"`
		Parts []order         `json:"parts,omitempty"`
		Pin   *string         `json:"pin,omitempty" millrace:"secret"`
		Key   []byte          `json:"key,omitempty" millrace:"secret"`
	}
	schema, err := jsonform.Schema(reflect.TypeFor[order]())
	if err != nil {
		t.Fatal(err)
	}
	pin := "xyzzy"
	body, err := json.Marshal(order{ID: "o17", Card: &card{"xyzzy", 1}, Cards: map[string]card{"ada": {"xyzzy", 2}}, Pin: &pin, Key: []byte("xyzzy"), Parts: []order{{Card: &card{"xyzzy", 3}, Pin: &pin}}})
	if err != nil {
		t.Fatal(err)
	}
	open := string(Of(schema).Open(body))
	if strings.Contains(open, "xyzzy") || strings.Contains(open, "eHl6enk=") || strings.Count(open, Secret) != 6 || !strings.Contains(open, `"month":3`) {
		t.Errorf("got %s", open)
	}
	if shape := string(Of(schema).Shape(body)); shape != `{"card": {"month": "number", "number": "(secret)"}, "cards": {"…": "1 more"}, "id": "text of 3", "key": "(secret)", "parts": ["1 of", {"card": {"month": "number", "number": "(secret)"}, "id": "text of 0", "pin": "(secret)"}], "pin": "(secret)"}` {
		t.Errorf("got %s", shape)
	}
}

// Law: content that has secrets shows only what its schema describes, however a member is written and whichever version
// has marked it.
func TestLawWhatNoSchemaDescribesIsNotOpened(t *testing.T) {
	t.Parallel()
	const (
		v1 = `{"type":"object","properties":{"card":{"type":"string","writeOnly":true},"at":{"$ref":"#/$defs/At"},"any":{}},"additionalProperties":false,"$defs":{"At":{"type":"object","properties":{"key":{"type":"string","writeOnly":true},"n":{"type":"integer"}},"additionalProperties":false}}}`
		v2 = `{"type":"object","properties":{"card":{"type":"string"},"id":{"type":"string"}},"additionalProperties":false}`
	)
	for _, test := range []struct {
		of         []string
		body, want string
	}{
		{[]string{v1}, `{"CARD":"4111","at":{"n":1,"KeY":"4111"}}`, `{"CARD":"(secret)","at":{"KeY":"(secret)","n":1}}`},
		{[]string{v1}, `{"id":"4111","at":{"more":{"x":"4111"}}}`, `{"at":{"more":{"…":"1 more"}},"id":"text of 4"}`},
		{[]string{v1}, `{"at":"4111"}`, `{"at":"text of 4"}`},
		{[]string{v1}, `{"at":["4111"]}`, `{"at":["1 of","text of 4"]}`},
		{[]string{v1}, `{"any":{"x":["4711"]}}`, `{"any":{"x":["4711"]}}`},
		{[]string{v1}, `["4111"]`, `["1 of","text of 4"]`},
		{[]string{v1}, `{"card":"4111"`, `"no JSON, 14 bytes"`},
		{[]string{v1, v2}, `{"card":"4111","id":"o17"}`, `{"card":"(secret)","id":"o17"}`},
		{[]string{v2, v1}, `{"card":"4111","id":"o17"}`, `{"card":"(secret)","id":"o17"}`},
		{[]string{v2}, `{"card":"4711","other":1}`, `{"card":"4711","other":1}`},
		{[]string{`{"writeOnly":true}`}, `{"card":"4111"}`, `"(secret)"`},
		{[]string{"junk"}, `{"card":"4111"}`, `{"…":"1 more"}`},
		{[]string{`{"$ref":"#/$defs/none","x":{"writeOnly":true}}`}, `"4111"`, `"text of 4"`},
	} {
		var all [][]byte
		for _, s := range test.of {
			all = append(all, []byte(s))
		}
		s := Of(all...)
		if got := string(s.Open([]byte(test.body))); got != test.want {
			t.Errorf("%s: got %s, want %s", test.body, got, test.want)
		}
		if shape := string(s.Shape([]byte(test.body))); strings.Contains(shape, "4111") {
			t.Errorf("%s: the shape is %s", test.body, shape)
		}
		if s.Silent() {
			t.Errorf("%s: it is silent", test.body)
		}
	}
	if got := string(Of([]byte(v1)).At("at").Open([]byte(`{"key":"4111","n":1}`))); got != `{"key":"(secret)","n":1}` {
		t.Errorf("a member: got %s", got)
	}
	if !Of(nil).Silent() || !Of().At("x").Silent() {
		t.Error("without a schema it isn't silent")
	}
}
