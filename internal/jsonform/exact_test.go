package jsonform_test

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/internal/jsonform"
)

// plain is a type like most value objects.
type plain struct {
	N     int64             `json:"n"`
	U     uint64            `json:"u,omitempty"`
	F     float64           `json:"f"`
	G     float32           `json:"g,string"`
	S     string            `json:"s,omitzero"`
	B     bool              `json:"b,omitempty"`
	Bytes []byte            `json:"bytes"`
	Fixed [3]int8           `json:"fixed"`
	Tags  []string          `json:"tags,omitempty"`
	Notes map[string]string `json:"notes,omitempty"`
	ByN   map[int][]inner   `json:"byN"`
	One   *inner            `json:"one,omitempty"`
	Many  []*inner          `json:"many"`
	At    time.Time         `json:"at,omitzero"`
	inner
}

type own2 struct{ N int }

func (own2) MarshalText() ([]byte, error) { return []byte("x"), nil }
func (*own2) UnmarshalText([]byte) error  { return nil }

type zeroish struct{ N int }

func (z zeroish) IsZero() bool { return z.N == 7 }

// same reports the result of Exact for a value, and whether decoding its JSON form really gives the same.
func same[V any](t *testing.T, v V) (says, is bool) {
	t.Helper()
	form, err := jsonform.Encode(v)
	if err != nil {
		t.Fatalf("%+v: %v", v, err)
	}
	back, err := jsonform.Decode[V](form)
	if err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	return jsonform.ExactOf(reflect.TypeFor[V]()).Same(&v), reflect.DeepEqual(back, v)
}

func TestExact(t *testing.T) {
	t.Parallel()
	yes := func(says, is bool) {
		t.Helper()
		if !says || !is {
			t.Errorf("said to be exact: %v, is %v; want true for both", says, is)
		}
	}
	yes(same(t, 5))
	yes(same(t, "é"))
	yes(same(t, plain{}))
	yes(same(t, plain{N: math.MinInt64, U: math.MaxUint64, F: math.SmallestNonzeroFloat64, G: math.MaxFloat32, S: "<\u2028\x00", B: true}))
	yes(same(t, plain{Bytes: []byte{}, Fixed: [3]int8{-1, 2, 3}, Tags: []string{""}, Notes: map[string]string{"": "a"}}))
	yes(same(t, plain{ByN: map[int][]inner{-1: nil, 2: {}, 3: {{N: 1}}}, One: &inner{}, Many: []*inner{nil, {N: 1}}}))
	yes(same(t, plain{At: time.Date(2026, 12, 24, 1, 2, 3, 4, time.UTC), inner: inner{N: 3}}))
	yes(same(t, map[string]int(nil)))
	yes(same(t, map[string]int{}))
	yes(same(t, []plain(nil)))
	yes(same(t, []plain{}))
	yes(same(t, (*plain)(nil)))
	yes(same(t, [2]*inner{{N: 1}, {N: 1}}))
}

func TestNotExact(t *testing.T) {
	t.Parallel()
	no := func(says, is bool) {
		t.Helper()
		if says || is {
			t.Errorf("said to be exact: %v, is %v; want false for both", says, is)
		}
	}
	no(same(t, map[string]any{"n": 1}))
	no(same(t, anything{X: 1}))
	no(same(t, []any{int8(1)}))
	no(same(t, half{1, 2}))
	no(same(t, struct {
		Sold int `json:"-"`
	}{1}))
	no(same(t, embedsManyMore{inner{1}, Other{2}, 3}))
	no(same(t, plain{Tags: []string{}}))
	no(same(t, plain{Notes: map[string]string{}}))
	no(same(t, plain{At: time.Now()}))
	if minus := (struct {
		F float64 `json:",omitempty"`
	}{math.Copysign(0, -1)}); jsonform.ExactOf(reflect.TypeOf(minus)).Same(&minus) {
		t.Error("a negative zero that is omitted: said to be exact")
	}
	if x := (locked{N: 1}); jsonform.ExactOf(reflect.TypeFor[locked]()).Same(&x) {
		t.Error("a lock: said to be exact")
	}
	no(same(t, []plain{{At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("CET", 3600))}}))
	no(same(t, map[string]own2{"a": {N: 1}}))
	no(same(t, map[own2]int{{N: 1}: 1}))
	no(same(t, struct{ P **inner }{new(*inner)}))
	no(same(t, struct{ P *[]int }{new([]int)}))
	no(same(t, struct {
		Z zeroish `json:",omitzero"`
	}{zeroish{7}}))
	no(same(t, json.RawMessage(`{"a": 1}`)))
}

// raw holds JSON in all places where it may be.
type raw struct {
	Always jsontext.Value            `json:"always"`
	Empty  jsontext.Value            `json:"empty,omitempty"`
	Zero   jsontext.Value            `json:"zero,omitzero"`
	Many   []jsontext.Value          `json:"many,omitempty"`
	ByName map[string]jsontext.Value `json:"byName,omitempty"`
}

func TestExactRawJSON(t *testing.T) {
	t.Parallel()
	one := jsontext.Value("1")
	for name, test := range map[string]struct {
		v    raw
		want bool
	}{
		"plain":               {raw{Always: jsontext.Value(`{"a b":[1,-0.0e5,null,"<é>"]}`)}, true},
		"null":                {raw{Always: jsontext.Value("null"), Empty: jsontext.Value("null"), Zero: jsontext.Value("null")}, true},
		"nothing in it":       {raw{Always: jsontext.Value(`""`), Empty: jsontext.Value("[]"), Zero: jsontext.Value("{}")}, true},
		"needed escapes":      {raw{Always: jsontext.Value(`"\n\"\\\u0001"`)}, true},
		"brackets in text":    {raw{Always: jsontext.Value(`["[[","]]"]`)}, true},
		"many":                {raw{Always: jsontext.Value("0"), Many: []jsontext.Value{jsontext.Value("1"), jsontext.Value("2")}}, true},
		"nil":                 {raw{}, false},
		"nil in a slice":      {raw{Always: one, Many: []jsontext.Value{nil}}, false},
		"nil in a map":        {raw{Always: one, ByName: map[string]jsontext.Value{"a": nil}}, false},
		"spaces":              {raw{Always: jsontext.Value(`{"a": 1}`)}, false},
		"needless escapes":    {raw{Always: jsontext.Value(`"\u003c"`)}, false},
		"needless solidus":    {raw{Always: jsontext.Value(`"\/"`)}, false},
		"one piece of memory": {raw{Always: one, Empty: one}, false},
	} {
		says := jsonform.ExactOf(reflect.TypeFor[raw]()).Same(&test.v)
		if says != test.want {
			t.Errorf("%s: said to be exact: %v, want %v", name, says, test.want)
		}
		if _, is := same(t, test.v); is != test.want && name != "one piece of memory" {
			t.Errorf("%s: is exact: %v, want %v", name, is, test.want)
		}
	}
	for name, v := range map[string]raw{
		"empty": {Always: jsontext.Value{}}, "not JSON": {Always: jsontext.Value("{")}, "two members of one name": {Always: jsontext.Value(`{"a":1,"a":2}`)},
		"not UTF-8": {Always: jsontext.Value("\"\xff\"")}, "left out": {Always: one, Empty: jsontext.Value{}},
	} {
		if jsonform.ExactOf(reflect.TypeFor[raw]()).Same(&v) {
			t.Errorf("%s: said to be exact", name)
		}
	}
	quoted := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "V", Type: reflect.TypeFor[jsontext.Value](), Tag: `json:",string"`}}))
	quoted.Elem().Field(0).SetBytes(one)
	if jsonform.ExactOf(quoted.Type().Elem()).Same(quoted.Interface()) {
		t.Error("with the option string: said to be exact")
	}
}

// Raw JSON that is said to be exact is encoded, in any place, to the same bytes, and comes back.
func FuzzExactRawJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.50,-0,1e400,true,null,"x"]}`, `"\u003c"`, `"\n\/\u2028"`, `{"a":1,"a":1}`, `["[","\\"]`, " 1", "1 ", "", "null",
		`"é\ud83d\ude00"`, "\"\x7f\u2028\"", "[\"\xff\"]",
		strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), `["` + strings.Repeat("]", 9_500) + `",` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + "]",
	} {
		f.Add([]byte(s))
	}
	exact := jsonform.ExactOf(reflect.TypeFor[raw]())
	f.Fuzz(func(t *testing.T, b []byte) {
		v := raw{Always: slices.Clone(b), Many: []jsontext.Value{slices.Clone(b)}, ByName: map[string]jsontext.Value{"a": slices.Clone(b)}}
		if !exact.Same(&v) {
			return
		}
		form, err := jsonform.Encode(v)
		if err != nil {
			t.Fatalf("%q: it is said to be exact and can't be encoded: %v", b, err)
		}
		back, err := jsonform.Decode[raw](form)
		if err != nil || !reflect.DeepEqual(back, v) {
			t.Fatalf("%q: it is said to be exact; got %q back, error %v", b, back.Always, err)
		}
	})
}

// Shared memory becomes two copies in JSON: a change to one would show in the other only until a restart.
func TestNotExactWhereMemoryIsShared(t *testing.T) {
	t.Parallel()
	notes, tags, one := map[string]string{"a": "b"}, []string{"a", "b", "c"}, &inner{N: 1}
	items := []inner{{N: 1}, {N: 2}}
	for name, v := range map[string]any{
		"one map twice":       &[]map[string]string{notes, notes},
		"one slice twice":     &[][]string{tags, tags},
		"slices that overlap": &[][]string{tags[:2], tags[1:]},
		"room behind a slice": &[][]string{tags[:1], tags[2:]},
		"one pointer twice":   &[]*inner{one, one},
		"a pointer into a slice": &struct {
			A []inner
			B *inner
		}{items, &items[1]},
		"in a map":                 &map[string][]string{"a": tags, "b": tags[:1:1]},
		"the same in another name": &struct{ A, B map[string]string }{notes, notes},
	} {
		if jsonform.ExactOf(reflect.TypeOf(v).Elem()).Same(v) {
			t.Errorf("%s: said to be exact", name)
		}
	}
	apart := &struct{ A, B []string }{tags[:1:1], tags[1:]}
	if !jsonform.ExactOf(reflect.TypeOf(apart).Elem()).Same(apart) {
		t.Error("slices beside each other: not said to be exact")
	}
}

// Exact must return for a value that contains itself.
func TestExactOfTypesThatContainThemselves(t *testing.T) {
	t.Parallel()
	type list []list
	type tree map[string]tree
	l, m, p := list{nil}, tree{}, &loop{}
	l[0], m["a"], p.Next = l, m, p
	for _, v := range []any{&l, &m, p} {
		if jsonform.ExactOf(reflect.TypeOf(v).Elem()).Same(v) {
			t.Errorf("%T: said to be exact", v)
		}
	}
}

func BenchmarkSame(b *testing.B) {
	for name, v := range map[string]any{
		"numbers": &inner{}, "references": &plain{Tags: []string{"a"}, Notes: map[string]string{"a": "b"}}, "anything": &anything{},
	} {
		b.Run(name, func(b *testing.B) {
			x := jsonform.ExactOf(reflect.TypeOf(v).Elem())
			b.ReportAllocs()
			for b.Loop() {
				x.Same(v)
			}
		})
	}
}
