package jsonform_test

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/millrace-go/millrace/internal/jsonform"
)

type everything struct {
	Text     string                    `json:"text"`
	Maybe    *string                   `json:"maybe,omitempty"`
	Null     *int                      `json:"null"`
	Quoted   int64                     `json:"quoted,string"`
	QuotedP  *bool                     `json:"quotedp,string"`
	Small    int8                      `json:"small"`
	Count    uint32                    `json:"count,omitzero"`
	Big      uint64                    `json:"big"`
	Ratio    float64                   `json:"ratio"`
	Bytes    []byte                    `json:"bytes"`
	Raw      json.RawMessage           `json:"raw"`
	At       time.Time                 `json:"at"`
	For      time.Duration             `json:"for"`
	Any      any                       `json:"any"`
	Address  netip.Addr                `json:"address"`
	Exact    *big.Int                  `json:"exact"`
	List     []place                   `json:"list"`
	Fixed    [2]int                    `json:"fixed"`
	ByName   map[string]place          `json:"byname"`
	ByNumber map[int]bool              `json:"bynumber"`
	ByAddr   map[netip.Addr]int        `json:"byaddr"`
	Inner    struct{ A, B int }        `json:"inner"`
	Own      own3                      `json:"own"`
	Never    int                       `json:"-"`
	Generic  pair[string, map[int]int] `json:"generic"`
	place
	*Shared
}

type Shared struct {
	Common string `json:"common"`
	Text   int    `json:"text"` // hidden by the outer one
}

type pair[A, B any] struct {
	First  A
	Second B
}

type tree struct {
	Name string  `json:"name"`
	Kids []tree  `json:"kids,omitempty"`
	Up   *tree   `json:"up,omitempty"`
	List *linked `json:"list"`
}

type linked struct {
	Next *linked `json:"next"`
	Tree *tree   `json:"tree"`
}

type nest []nest

func schemaOf(t *testing.T, typ reflect.Type) (*jsonschema.Schema, string) {
	t.Helper()
	raw, err := jsonform.Schema(typ)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("test:x", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("test:x") // it also judges the schema by its dialect's own schema
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s, string(raw)
}

func valid(t *testing.T, s *jsonschema.Schema, form string) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// A type's zero value and its example are encoded as its schema says, and the example has every member.
func TestWhatIsEncodedFitsTheSchema(t *testing.T) {
	t.Parallel()
	for _, zero := range []any{everything{Shared: &Shared{}}, tree{}, linked{}, nest{}, place{}, &place{}, struct{}{}, pair[tree, nest]{}, map[string]int{}, "", 1, stock{}} {
		typ := reflect.TypeOf(zero)
		s, raw := schemaOf(t, typ)
		for _, v := range []any{zero, jsonform.Example(typ)} {
			form, err := jsonform.Encode(v)
			if err != nil {
				t.Fatalf("%v: %v", typ, err)
			}
			if err := valid(t, s, string(form)); err != nil {
				t.Errorf("%v: %s doesn't fit %s: %v", typ, form, raw, err)
			}
			if err := json.Unmarshal(form, reflect.New(typ).Interface()); err != nil {
				t.Errorf("%v: %s can't be read: %v", typ, form, err)
			}
		}
	}
	form, err := jsonform.Encode(jsonform.Example(reflect.TypeFor[everything]()))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(form, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 26 || got["text"] != "text" || got["quoted"] != "1" || got["common"] != "text" || got["at"] != "2026-01-02T15:04:05Z" {
		t.Errorf("got %d members: %s", len(got), form)
	}
}

// The schema refuses what would not arrive as it was meant.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	type order struct {
		ID    string         `json:"id"`
		Count int8           `json:"count"`
		At    *time.Time     `json:"at,omitempty"`
		Note  string         `json:"note,omitempty"`
		Lines []place        `json:"lines,omitempty"`
		By    map[int]string `json:"by,omitempty"`
		Twice [2]int         `json:"twice,omitzero"`
		Tree  *tree          `json:"tree,omitempty"`
		Plus  int            `json:"plus,string,omitempty"`
	}
	s, raw := schemaOf(t, reflect.TypeFor[order]())
	for form, ok := range map[string]bool{
		`{"id":"a","count":1}`: true,
		`{"id":"a","count":1,"at":null,"lines":null,"note":"n"}`: true,
		`{"id":"a"}`:                                             false, // a member is missing
		`{"id":"a","count":1,"more":2}`:                          false,
		`{"ID":"a","count":1}`:                                   false,
		`{"id":1,"count":1}`:                                     false,
		`{"id":"a","count":1.5}`:                                 false,
		`{"id":"a","count":128}`:                                 false,
		`{"id":null,"count":1}`:                                  false,
		`{"id":"a","count":1,"at":"yesterday"}`:                  false,
		`{"id":"a","count":1,"lines":[{"X":"1"}]}`:               false,
		`{"id":"a","count":1,"lines":{}}`:                        false,
		`{"id":"a","count":1,"by":{"x":"y"}}`:                    false,
		`{"id":"a","count":1,"by":{"-7":"y"}}`:                   true,
		`{"id":"a","count":1,"twice":[1]}`:                       false,
		`{"id":"a","count":1,"plus":1}`:                          false,
		`{"id":"a","count":1,"plus":"1"}`:                        true,
		`{"id":"a","count":1,"tree":{"name":"n","list":null}}`:   true,
		`{"id":"a","count":1,"tree":{"name":"n","kids":[{}]}}`:   false,
		`{"id":"a","count":1,"tree":{"name":"n","list":"none"}}`: false,
		`[]`: false,
	} {
		if err := valid(t, s, form); (err == nil) != ok {
			t.Errorf("%s: got %v, want it to fit: %v\n%s", form, err, ok, raw)
		}
	}
}

type rude struct{ A int }

func (rude) MarshalJSON() ([]byte, error)        { panic("called") }
func (*rude) UnmarshalJSON([]byte) error         { panic("called") }
func (rude) IsZero() bool                        { panic("called") }
func (rude) String() string                      { panic("called") }
func (rude) MarshalText() (text []byte, _ error) { panic("called") }

// No method of a type is called.
func TestSchemaAndExampleCallNothing(t *testing.T) {
	t.Parallel()
	typ := reflect.TypeFor[struct {
		A rude
		B *rude `json:",omitzero"`
		C []rude
		D map[rude]rude
	}]()
	if _, err := jsonform.Schema(typ); err != nil {
		t.Error(err)
	}
	jsonform.Example(typ)
}
