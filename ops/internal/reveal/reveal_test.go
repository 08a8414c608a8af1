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
		if got := string(Shape([]byte(body), []byte(orders))); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
	for _, schema := range []string{"", "junk", `{"$ref":"#/$defs/none"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`, `{"anyOf":[null]}`} {
		if got := string(Shape([]byte(`{"ada":"lovelace"}`), []byte(schema))); got != `{"…": "1 more"}` {
			t.Errorf("schema %s: got %s", schema, got)
		}
	}
}

// Law: what is marked secret is in no form.
func TestLawSecretsAreNeverOpened(t *testing.T) {
	t.Parallel()
	const body = `{"id":"o17","card":{"number":"4111","month":12},"by":{"ada":{"number":"4111","month":1}},"pin":"1234","whole":{"number":"4111"},"other":[1.50]}`
	got := string(Open([]byte(body), []byte(orders)))
	if want := `{"by":{"ada":{"month":1,"number":"(secret)"}},"card":{"month":12,"number":"(secret)"},"id":"o17","other":[1.50],"pin":"(secret)","whole":"(secret)"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, body := range []string{`{"a":"<b>"}`, `7`} {
		if got := string(Open([]byte(body), nil)); got != body {
			t.Errorf("got %s, want %s", got, body)
		}
	}
	if got := string(Open([]byte("a\x00b"), []byte(orders))); got != `"a\u0000b"` {
		t.Errorf("got %s", got)
	}
}

// A text has a length, and a mark by which equal ones are known.
func TestText(t *testing.T) {
	t.Parallel()
	a, b := Text("dial tcp: no route to ada"), Text("dial tcp: no route to bob")
	if a == b || a != Text("dial tcp: no route to ada") || !strings.HasPrefix(a, "text of 25 (#") || Text("") != "" {
		t.Errorf("got %q and %q", a, b)
	}
}

// Any content with any schema has a shape that is JSON, is small, and has none of its texts.
func FuzzShape(f *testing.F) {
	f.Add([]byte(`{"id":"xyzzy","lines":[{"item":"xyzzy"}]}`), []byte(orders))
	f.Add([]byte(strings.Repeat(`{"more":`, 1000)+`"xyzzy"`+strings.Repeat("}", 1000)), []byte(`{"$ref":"#/$defs/L","$defs":{"L":{"properties":{"more":{"$ref":"#/$defs/L"}}}}}`))
	f.Add([]byte(`[`+strings.Repeat(`"xyzzy",`, 5000)+`1]`), []byte(`{"items":{"type":"string"}}`))
	f.Fuzz(func(t *testing.T, body, schema []byte) {
		got := Shape(body, schema)
		if !json.Valid(got) || len(got) > 1<<20 {
			t.Errorf("%q: got %d bytes: %s", body, len(got), got)
		}
		if strings.Contains(string(got), "xyzzy") && !strings.Contains(string(schema), "xyzzy") {
			t.Errorf("%q: got %s", body, got)
		}
		if open := Open(body, schema); !json.Valid(open) {
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
	open := string(Open(body, schema))
	if strings.Contains(open, "xyzzy") || strings.Contains(open, "eHl6enk=") || strings.Count(open, Secret) != 6 || !strings.Contains(open, `"month":3`) {
		t.Errorf("got %s", open)
	}
	if shape := string(Shape(body, schema)); shape != `{"card": {"month": "number", "number": "(secret)"}, "cards": {"…": "1 more"}, "id": "text of 3", "key": "(secret)", "parts": ["1 of", {"card": {"month": "number", "number": "(secret)"}, "id": "text of 0", "pin": "(secret)"}], "pin": "(secret)"}` {
		t.Errorf("got %s", shape)
	}
}
