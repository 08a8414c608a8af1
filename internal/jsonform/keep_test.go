package jsonform_test

import (
	"reflect"
	"testing"

	"github.com/millrace-go/millrace/internal/jsonform"
)

type stock struct {
	Left  int              `json:"left"`
	Note  string           `json:"note,omitempty"`
	Meta  place            `json:"meta"`
	Link  *place           `json:"link,omitempty"`
	Items map[string]place `json:"items,omitempty"`
	List  []place          `json:"list,omitempty"`
	Fixed [1]place         `json:"fixed"`
	Any   any              `json:"any,omitempty"`
	Own   own3             `json:"own"`
	Left2 int              `json:"-"`
	place
}

type place struct {
	X int
}

type own3 struct{ a int }

func (x *own3) UnmarshalJSON([]byte) error { x.a++; return nil }
func (own3) MarshalJSON() ([]byte, error)  { return []byte(`{"a":1}`), nil }

func TestKeepUnknown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, old, new, want string }{
		{"nothing to keep", `{"left":1}`, `{"left":2}`, `{"left":2}`},
		{"a member", `{"left":1,"new":"a"}`, `{"left":2}`, `{"left":2,"new":"a"}`},
		{"several, in their order", `{"z":1,"left":1,"a":2}`, `{"left":2}`, `{"left":2,"z":1,"a":2}`},
		{"numbers as they are", `{"n":12345678901234567890.10e5}`, `{"left":2}`, `{"left":2,"n":12345678901234567890.10e5}`},
		{"whatever it is", `{"n":{"a":[{"left":1}]},"m":null}`, `{}`, `{"n":{"a":[{"left":1}]},"m":null}`},
		{"a known one that is gone", `{"note":"a","new":1}`, `{"left":2}`, `{"left":2,"new":1}`},
		{"another case is the same", `{"NOTE":"a","LEFT":1}`, `{"left":2}`, `{"left":2}`},
		{"what the type leaves out", `{"Left2":1}`, `{"left":2}`, `{"left":2,"Left2":1}`},
		{"embedded", `{"X":1,"Y":2}`, `{"X":3}`, `{"X":3,"Y":2}`},
		{"within", `{"meta":{"X":1,"Y":2}}`, `{"meta":{"X":3}}`, `{"meta":{"X":3,"Y":2}}`},
		{"within another case", `{"META":{"Y":2}}`, `{"meta":{"X":3}}`, `{"meta":{"X":3,"Y":2}}`},
		{"within what is gone", `{"link":{"Y":2}}`, `{"left":2}`, `{"left":2}`},
		{"within what is null", `{"link":{"Y":2}}`, `{"link":null}`, `{"link":null}`},
		{"beside what is gone", `{"link":{"Y":2},"new":1}`, `{"left":2}`, `{"left":2,"new":1}`},
		{"in a map", `{"items":{"a":{"Y":1},"b":{"Y":2}}}`, `{"items":{"b":{"X":0},"c":{"X":1}}}`, `{"items":{"b":{"X":0,"Y":2},"c":{"X":1}}}`},
		{"a map knows all keys", `{"items":{"a":{"X":1}}}`, `{"items":{}}`, `{"items":{}}`},
		{"not in lists", `{"list":[{"X":1,"Y":1}],"fixed":[{"Y":1}]}`, `{"list":[{"X":2}]}`, `{"list":[{"X":2}]}`},
		{"anything knows all", `{"any":{"Y":1}}`, `{"any":{"Z":1}}`, `{"any":{"Z":1}}`},
		{"a type of its own knows all", `{"own":{"a":1,"b":2}}`, `{"own":{"a":1}}`, `{"own":{"a":1}}`},
		{"text", `{"é\"<":"\u00e9\"<"}`, `{}`, `{"é\"<":"é\"<"}`},
		{"the new form has it", `{"new":1}`, `{"new":2}`, `{"new":2}`},
		{"null before", `null`, `{"left":1}`, `{"left":1}`},
		{"null after", `{"new":1}`, `null`, `null`},
	} {
		got, err := jsonform.KeepUnknown(reflect.TypeFor[stock](), []byte(test.old), []byte(test.new))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, error %v; want %s", test.name, got, err, test.want)
		}
		again, err := jsonform.KeepUnknown(reflect.TypeFor[*stock](), got, got)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: kept once more: got %s, error %v; want %s", test.name, again, err, got)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[map[string]any](), reflect.TypeFor[any](), reflect.TypeFor[int](), reflect.TypeFor[own3](), reflect.TypeFor[[]place]()} {
		if got, err := jsonform.KeepUnknown(of, []byte(`{"a":1}`), []byte(`{}`)); err != nil || string(got) != `{}` {
			t.Errorf("%v: got %s, error %v; want it as it is", of, got, err)
		}
	}
}

func TestDecodeKnown(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"left":1}`: true, `{"LEFT":1}`: true, `{"any":{"a":1}}`: true, `{"own":{"b":1}}`: true, `{"items":{"a":{}}}`: true, `null`: true,
		`{"new":1}`: false, `{"meta":{"Y":1}}`: false, `{"items":{"a":{"Y":1}}}`: false, `{"list":[{"Y":1}]}`: false, `{"Left2":1}`: false,
	} {
		v, known, err := jsonform.DecodeKnown[stock]([]byte(body))
		if err != nil || known != want {
			t.Errorf("%s: got %+v, known %v, error %v; want known %v", body, v, known, err, want)
		}
	}
	if v, known, err := jsonform.DecodeKnown[stock]([]byte(`{"new":1,"left":5}`)); err != nil || known || v.Left != 5 {
		t.Errorf("got %+v, %v, error %v; want left 5 beside what is unknown", v, known, err)
	}
	if _, _, err := jsonform.DecodeKnown[stock]([]byte(`{"new":1,"left":"a"}`)); err == nil {
		t.Error("a member that doesn't fit: got no error")
	}
}
