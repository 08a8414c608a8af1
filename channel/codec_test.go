package channel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
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

func (bookV1) Kind() channel.Kind { return "test.book.v1" }
func (bookV2) Kind() channel.Kind { return "test.book.v2" }
func (bookV3) Kind() channel.Kind { return "test.book.v3" }

func toV2(m bookV1) bookV2 {
	first, last, _ := strings.Cut(m.Name, " ")
	return bookV2{First: first, Last: last}
}

func toV3(m bookV2) bookV3 { return bookV3{First: m.First, Last: m.Last, Seats: 1} }

// otherBook has the kind of another type.
type otherBook struct{}

func (otherBook) Kind() channel.Kind { return "test.book.v1" }

func decodeAs(c *channel.Codec, k channel.Kind, body string) (any, error) {
	return c.Decode(&channel.Envelope{ID: "1", Source: "/web", Kind: k, Data: []byte(body)})
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestCodecDecodes(t *testing.T) {
	t.Parallel()
	var c channel.Codec
	must(t, channel.Register[Order](&c), channel.Register[Order](&c), channel.Register[Unheard](&c))
	for _, test := range []struct {
		name string
		kind channel.Kind
		body string
		want any
	}{
		{"whole", "test.order.v1", `{"table":4,"dish":"soup"}`, Order{Table: 4, Dish: "soup"}},
		{"missing member", "test.order.v1", `{"table":4}`, Order{Table: 4}},
		{"unknown members", "test.order.v1", `{"table":4,"wine":{"red":[1,2]},"x":null}`, Order{Table: 4}},
		{"null", "test.order.v1", `null`, Order{}},
		{"other case", "test.order.v1", `{"TABLE":4}`, Order{Table: 4}},
		{"empty type", "test.unheard.v1", `{}`, Unheard{}},
	} {
		got, err := decodeAs(&c, test.kind, test.body)
		if err != nil || got != test.want {
			t.Errorf("%s: got %#v and error %v, want %#v", test.name, got, err, test.want)
		}
	}
}

func TestCodecRefuses(t *testing.T) {
	t.Parallel()
	var c channel.Codec
	must(t, channel.Register[Order](&c))
	for _, test := range []struct {
		name string
		kind channel.Kind
		body string
		want error
	}{
		{"unknown kind", "test.order.v2", `{}`, channel.ErrUnknownKind},
		{"no kind", "", `{}`, channel.ErrUnknownKind},
		{"no body", "test.order.v1", ``, channel.ErrBody},
		{"text for a number", "test.order.v1", `{"table":"four"}`, channel.ErrBody},
		{"number too large", "test.order.v1", `{"table":1e99}`, channel.ErrBody},
		{"list", "test.order.v1", `[]`, channel.ErrBody},
		{"half", "test.order.v1", `{"table":4`, channel.ErrBody},
	} {
		m, err := decodeAs(&c, test.kind, test.body)
		if !errors.Is(err, test.want) || m != nil {
			t.Errorf("%s: got %#v and error %v, want %v", test.name, m, err, test.want)
		}
		if err != nil && test.kind != "" && !strings.Contains(err.Error(), string(test.kind)) {
			t.Errorf("%s: error %v doesn't name the kind", test.name, err)
		}
	}
	var empty channel.Codec
	if _, err := decodeAs(&empty, "test.order.v1", `{}`); !errors.Is(err, channel.ErrUnknownKind) {
		t.Errorf("zero codec: got error %v, want %v", err, channel.ErrUnknownKind)
	}
}

func TestUpgradeChain(t *testing.T) {
	t.Parallel()
	var c channel.Codec
	must(t, channel.Register[bookV3](&c), channel.Upgrade(&c, toV3), channel.Upgrade(&c, toV2))
	want := bookV3{First: "Ada", Last: "Lovelace", Seats: 1}
	for kind, body := range map[channel.Kind]string{
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
	if _, err := decodeAs(&c, "test.book.v1", `{"name":1}`); !errors.Is(err, channel.ErrBody) {
		t.Errorf("a bad old body: got error %v, want %v", err, channel.ErrBody)
	}
}

func TestUpgradeFaults(t *testing.T) {
	t.Parallel()
	upgradeV1 := func(c *channel.Codec) error { return channel.Upgrade(c, toV2) }
	for _, test := range []struct {
		name    string
		prepare []func(*channel.Codec) error
		fault   func(*channel.Codec) error
	}{
		{"to a kind that is not known", nil, upgradeV1},
		{"twice", []func(*channel.Codec) error{channel.Register[bookV2], upgradeV1}, upgradeV1},
		{"from a kind with a handler", []func(*channel.Codec) error{channel.Register[bookV2], channel.Register[bookV1]}, upgradeV1},
		{"to itself", []func(*channel.Codec) error{channel.Register[bookV1]},
			func(c *channel.Codec) error { return channel.Upgrade(c, func(m bookV1) bookV1 { return m }) }},
		{"from a bad kind", []func(*channel.Codec) error{channel.Register[bookV2]},
			func(c *channel.Codec) error { return channel.Upgrade(c, func(badKind) bookV2 { return bookV2{} }) }},
		{"to another type of the kind", []func(*channel.Codec) error{channel.Register[bookV1]},
			func(c *channel.Codec) error { return channel.Upgrade(c, func(bookV2) otherBook { return otherBook{} }) }},
		{"a handler for an upgraded kind", []func(*channel.Codec) error{channel.Register[bookV2], upgradeV1}, channel.Register[bookV1]},
		{"two types of one kind", []func(*channel.Codec) error{channel.Register[bookV1]}, channel.Register[otherBook]},
		{"a bad kind", nil, channel.Register[badKind]},
	} {
		var c channel.Codec
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

// Code that knows version 2 handles a message that was sent as version 1.
func ExampleUpgrade() {
	var codec channel.Codec
	if err := channel.Register[bookV2](&codec); err != nil {
		fmt.Println(err)
	}
	if err := channel.Upgrade(&codec, func(m bookV1) bookV2 {
		first, last, _ := strings.Cut(m.Name, " ")
		return bookV2{First: first, Last: last}
	}); err != nil {
		fmt.Println(err)
	}
	m, err := codec.Decode(&channel.Envelope{Kind: "test.book.v1", Data: []byte(`{"name":"Ada Lovelace"}`)})
	fmt.Printf("%+v %v\n", m, err)
	// Output: {First:Ada Last:Lovelace} <nil>
}
