package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/wire"
)

// Three versions of one message.
type (
	bookV1 struct {
		Name string `json:"name"` // "Ada Lovelace"
	}
	bookV2 struct {
		First string `json:"first"`
		Last  string `json:"last"`
	}
	bookV3 struct {
		First string `json:"first"`
		Last  string `json:"last"`
		Seats int    `json:"seats"`
	}
)

func (bookV1) Kind() wire.Kind { return "test.book.v1" }
func (bookV2) Kind() wire.Kind { return "test.book.v2" }
func (bookV3) Kind() wire.Kind { return "test.book.v3" }

func toV2(m bookV1) bookV2 {
	first, last, _ := strings.Cut(m.Name, " ")
	return bookV2{First: first, Last: last}
}

func toV3(m bookV2) bookV3 { return bookV3{First: m.First, Last: m.Last, Seats: 1} }

type badKind struct{}

func (badKind) Kind() wire.Kind { return "Bad Kind" }

// otherBook has the kind of another type.
type otherBook struct{}

func (otherBook) Kind() wire.Kind { return "test.book.v1" }

func decodeAs(c *wire.Codec, k wire.Kind, body string) (any, error) {
	return c.Decode(&wire.Envelope{ID: "1", Source: "/web", Kind: k, Data: []byte(body)})
}

func TestCodecDecodes(t *testing.T) {
	t.Parallel()
	var c wire.Codec
	must(t, wire.Register[Order](&c), wire.Register[Order](&c), wire.Register[Empty](&c))
	for _, test := range []struct {
		name string
		kind wire.Kind
		body string
		want any
	}{
		{"whole", "test.order.v1", `{"table":4,"dish":"soup"}`, Order{Table: 4, Dish: "soup"}},
		{"missing member", "test.order.v1", `{"table":4}`, Order{Table: 4}},
		{"unknown members", "test.order.v1", `{"table":4,"wine":{"red":[1,2]},"x":null}`, Order{Table: 4}},
		{"null", "test.order.v1", `null`, Order{}},
		{"other case", "test.order.v1", `{"TABLE":4}`, Order{Table: 4}},
		{"empty type", "test.empty.v1", `{}`, Empty{}},
	} {
		got, err := decodeAs(&c, test.kind, test.body)
		if err != nil || got != test.want {
			t.Errorf("%s: got %#v and error %v, want %#v", test.name, got, err, test.want)
		}
	}
}

func TestCodecRefuses(t *testing.T) {
	t.Parallel()
	var c wire.Codec
	must(t, wire.Register[Order](&c))
	for _, test := range []struct {
		name string
		kind wire.Kind
		body string
		want error
	}{
		{"unknown kind", "test.order.v2", `{}`, wire.ErrUnknownKind},
		{"no kind", "", `{}`, wire.ErrUnknownKind},
		{"no body", "test.order.v1", ``, wire.ErrBody},
		{"text for a number", "test.order.v1", `{"table":"four"}`, wire.ErrBody},
		{"number too large", "test.order.v1", `{"table":1e99}`, wire.ErrBody},
		{"list", "test.order.v1", `[]`, wire.ErrBody},
		{"half", "test.order.v1", `{"table":4`, wire.ErrBody},
	} {
		m, err := decodeAs(&c, test.kind, test.body)
		if !errors.Is(err, test.want) || m != nil {
			t.Errorf("%s: got %#v and error %v, want %v", test.name, m, err, test.want)
		}
		if err != nil && test.kind != "" && !strings.Contains(err.Error(), string(test.kind)) {
			t.Errorf("%s: error %v doesn't name the kind", test.name, err)
		}
	}
	var empty wire.Codec
	if _, err := decodeAs(&empty, "test.order.v1", `{}`); !errors.Is(err, wire.ErrUnknownKind) {
		t.Errorf("zero codec: got error %v, want %v", err, wire.ErrUnknownKind)
	}
}

func TestUpgradeChain(t *testing.T) {
	t.Parallel()
	var c wire.Codec
	must(t, wire.Register[bookV3](&c), wire.Upgrade(&c, toV3), wire.Upgrade(&c, toV2))
	want := bookV3{First: "Ada", Last: "Lovelace", Seats: 1}
	for kind, body := range map[wire.Kind]string{
		"test.book.v1": `{"name":"Ada Lovelace"}`,
		"test.book.v2": `{"first":"Ada","last":"Lovelace"}`,
		"test.book.v3": `{"first":"Ada","last":"Lovelace","seats":1}`,
	} {
		got, err := decodeAs(&c, kind, body)
		if err != nil || got != want {
			t.Errorf("%s: got %#v and error %v, want %#v", kind, got, err, want)
		}
		if current, ok := c.Current(kind); current != "test.book.v3" || !ok {
			t.Errorf("%s becomes %q, %v; want test.book.v3", kind, current, ok)
		}
	}
	if current, ok := c.Current("test.book.v4"); ok {
		t.Errorf("an unknown kind becomes %q", current)
	}
	if _, err := decodeAs(&c, "test.book.v1", `{"name":1}`); !errors.Is(err, wire.ErrBody) {
		t.Errorf("a bad old body: got error %v, want %v", err, wire.ErrBody)
	}
}

func TestUpgradeFaults(t *testing.T) {
	t.Parallel()
	upgradeV1 := func(c *wire.Codec) error { return wire.Upgrade(c, toV2) }
	for _, test := range []struct {
		name    string
		prepare []func(*wire.Codec) error
		fault   func(*wire.Codec) error
	}{
		{"to a kind that is not known", nil, upgradeV1},
		{"twice", []func(*wire.Codec) error{wire.Register[bookV2], upgradeV1}, upgradeV1},
		{"from a kind with a handler", []func(*wire.Codec) error{wire.Register[bookV2], wire.Register[bookV1]}, upgradeV1},
		{"to itself", []func(*wire.Codec) error{wire.Register[bookV1]},
			func(c *wire.Codec) error { return wire.Upgrade(c, func(m bookV1) bookV1 { return m }) }},
		{"from a bad kind", []func(*wire.Codec) error{wire.Register[bookV2]},
			func(c *wire.Codec) error { return wire.Upgrade(c, func(badKind) bookV2 { return bookV2{} }) }},
		{"to another type of the kind", []func(*wire.Codec) error{wire.Register[bookV1]},
			func(c *wire.Codec) error { return wire.Upgrade(c, func(bookV2) otherBook { return otherBook{} }) }},
		{"a handler for an upgraded kind", []func(*wire.Codec) error{wire.Register[bookV2], upgradeV1}, wire.Register[bookV1]},
		{"two types of one kind", []func(*wire.Codec) error{wire.Register[bookV1]}, wire.Register[otherBook]},
		{"a bad kind", nil, wire.Register[badKind]},
	} {
		var c wire.Codec
		for _, f := range test.prepare {
			must(t, f(&c))
		}
		before, _ := decodeAs(&c, "test.book.v1", `{"name":"Ada Lovelace"}`)
		if err := test.fault(&c); err == nil {
			t.Errorf("%s: got no error", test.name)
		}
		if after, _ := decodeAs(&c, "test.book.v1", `{"name":"Ada Lovelace"}`); after != before {
			t.Errorf("%s: the fault changed what is decoded from %#v to %#v", test.name, before, after)
		}
	}
}

// planned is a message whose kind depends on its value.
type planned struct {
	Plan string `json:"plan"`
}

func (p planned) Kind() wire.Kind { return wire.Kind(p.Plan) }

// A type whose kind depends on its value is registered for each of its kinds, and each kind has one type.
func TestRegisterAs(t *testing.T) {
	t.Parallel()
	var c wire.Codec
	must(t, wire.RegisterAs[planned](&c, "test.a"), wire.RegisterAs[planned](&c, "test.b"), wire.RegisterAs[planned](&c, "test.b"))
	for _, k := range []wire.Kind{"test.a", "test.b"} {
		if m, err := decodeAs(&c, k, fmt.Sprintf(`{"plan":%q}`, k)); err != nil || m != (planned{string(k)}) {
			t.Errorf("%s: got %#v, error %v", k, m, err)
		}
	}
	for name, err := range map[string]error{
		"its own kind of no value": wire.Register[planned](&c),
		"another type":             wire.RegisterAs[bookV1](&c, "test.a"),
		"an empty type":            wire.RegisterAs[sealedOrder](&c, "test.c"),
	} {
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := decodeAs(&c, "test.c", `{}`); !errors.Is(err, wire.ErrUnknownKind) {
		t.Errorf("got error %v; want %v", err, wire.ErrUnknownKind)
	}
}

// sealedOrder has no field that JSON keeps, and partOrder has one.
type (
	sealedOrder struct{ table int }
	partOrder   struct{ Table, seat int }
)

func (m sealedOrder) Kind() wire.Kind { return wire.Kind("test.sealed.v1"[m.table:]) }
func (m partOrder) Kind() wire.Kind   { return wire.Kind("test.part.v1"[m.seat:]) }

// A type of which nothing would arrive has no handler.
func TestCodecRefusesTypesThatWouldArriveEmpty(t *testing.T) {
	t.Parallel()
	var c wire.Codec
	must(t, wire.Register[bookV2](&c), wire.Register[partOrder](&c))
	for name, err := range map[string]error{
		"registered": wire.Register[sealedOrder](&c),
		"upgraded":   wire.Upgrade(&c, func(sealedOrder) bookV2 { return bookV2{} }),
	} {
		if err == nil || !strings.Contains(err.Error(), "sealedOrder.table") {
			t.Errorf("%s: got error %v, want one with the field", name, err)
		}
	}
}

// A body from elsewhere is refused when it is read.
func TestDecodeWhatIsNotUTF8(t *testing.T) {
	t.Parallel()
	var c wire.Codec
	must(t, wire.Register[Order](&c))
	for _, body := range []string{"{\"dish\":\"caf\xe9\"}", `{"dish":"\ud800"}`} {
		if m, err := decodeAs(&c, "test.order.v1", body); !errors.Is(err, wire.ErrBody) {
			t.Errorf("%q: got %+v, error %v; want %v", body, m, err, wire.ErrBody)
		}
	}
}

// Code that knows version 2 handles a message that was sent as version 1.
func ExampleUpgrade() {
	var codec wire.Codec
	if err := wire.Register[bookV2](&codec); err != nil {
		fmt.Println(err)
	}
	if err := wire.Upgrade(&codec, func(m bookV1) bookV2 {
		first, last, _ := strings.Cut(m.Name, " ")
		return bookV2{First: first, Last: last}
	}); err != nil {
		fmt.Println(err)
	}
	m, err := codec.Decode(&wire.Envelope{Kind: "test.book.v1", Data: []byte(`{"name":"Ada Lovelace"}`)})
	fmt.Printf("%+v %v\n", m, err)
	// Output: {First:Ada Last:Lovelace} <nil>
}
